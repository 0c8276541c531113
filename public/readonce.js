// Shows what the engine is doing while the page is already open. The answer comes from app/page_guard.py.
(() => {
  const root = document.querySelector('meta[property="og:root_path"]')?.content || '';
  const pill = document.createElement('div');
  pill.id = 'ro-state';
  pill.setAttribute('role', 'status');
  pill.append(document.createElement('i'), document.createElement('span'));
  pill.hidden = true;

  async function look() {
    let next = 15000;
    try {
      const answer = await fetch(`${root}/readonce/state`, { headers: { 'Accept-Language': navigator.language } });
      const state = await answer.json();
      pill.dataset.state = state.state;
      pill.lastChild.textContent = state.sentence;
      pill.title = state.sentence;
      pill.hidden = false;
      if (state.state === 'starting') next = 1000;
    } catch {
      pill.hidden = true; // Chainlit itself says that the server is gone.
    }
    setTimeout(look, document.hidden ? Math.max(next, 5000) : next);
  }

  document.addEventListener('DOMContentLoaded', () => {
    document.body.append(pill);
    look();
  });
})();

// Shows what the engine is doing while the page is already open (the answer comes from app/page/guard.py), and stands
// between Chainlit's script and the server where the two misunderstand each other. It runs before that script.
(() => {
  const root = document.querySelector('meta[property="og:root_path"]')?.content || '';
  import(`${root}/public/readonce_names.js`);
  const pill = document.createElement('div');
  pill.id = 'ro-state';
  pill.setAttribute('role', 'status');
  pill.append(document.createElement('i'), document.createElement('span'));
  pill.hidden = true;

  // A kept chat that is opened by its address connects twice, as a new chat and as itself, each after a call of its own
  // to the server. Where the answers overtook each other the new chat would close the other's socket, and the kept one
  // never come: only the last that was asked for goes on.
  const fetchPlainly = window.fetch;
  let connects = 0;
  async function connect(...asked) {
    const number = ++connects;
    const answered = fetchPlainly(...asked).then(async (answer) => new Response(await answer.text(), answer));
    await answered.catch(() => {});
    return number === connects ? answered : new Promise(() => {});
  }

  // Why a login failed is found among Chainlit's words by the status' own text, which HTTP/2 has not.
  async function logIn(...asked) {
    const { body, headers, status, statusText } = await fetchPlainly(...asked);
    const refused = status === 401 || status === 429;
    return new Response(body, { headers, status, statusText: refused ? 'credentialsSignin' : statusText });
  }

  const instead = { '/set-session-cookie': connect, '/login': logIn };
  window.fetch = (...asked) => {
    const { pathname } = new URL(asked[0]?.url ?? asked[0], location.href);
    return (instead[pathname.slice(root.length)] ?? fetchPlainly)(...asked);
  };

  // The server closes a socket so where the session has ended: Chainlit would only say that it can't reach the server.
  const ENDED = 1008;
  let signedOut = false;
  window.WebSocket = class extends WebSocket {
    constructor(...where) {
      super(...where);
      this.addEventListener('close', (event) => event.code === ENDED && saySignedOut());
    }
  };
  function saySignedOut() {
    signedOut = true;
    const zh = navigator.language.toLowerCase().startsWith('zh');
    pill.dataset.state = 'signed-out';
    pill.lastChild.textContent = zh
      ? '登录已失效：请刷新页面后重新登录。'
      : 'You are no longer logged in: load this page again and log in.';
    pill.title = pill.lastChild.textContent;
    pill.hidden = false;
  }

  async function look() {
    if (signedOut) return;
    let next = 15000;
    try {
      const answer = await fetch(`${root}/readonce/state`, { headers: { 'Accept-Language': navigator.language } });
      const state = await answer.json();
      if (signedOut) return;
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

  // What is picked to ask about is read ahead: the picker itself tells the server only with the next question.
  const pickedName = () => document.getElementById('mode-picker-trigger-document')?.textContent?.trim() || null;
  let picked = null;
  function notePicked() {
    const name = pickedName();
    if (!name || name === picked) return;
    picked = name;
    fetch(`${root}/readonce/picked`, { method: 'POST', body: name }).catch(() => {});
  }

  document.addEventListener('DOMContentLoaded', () => {
    document.body.append(pill);
    look();
    let due = 0;
    new MutationObserver(() => {
      picked ??= pickedName(); // What stands there when the page opens was picked by nobody.
      clearTimeout(due);
      due = setTimeout(notePicked, 300);
    }).observe(document.body, { childList: true, subtree: true, characterData: true });
  });
})();

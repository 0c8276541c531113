// Progress on the pages of documents: sends files one by one, and puts what the server draws now in place of what is
// shown. Without it the forms do the same, and loading the page again shows how far things are.
(() => {
  try {
    const chosen = localStorage.getItem('vite-ui-theme'); // what the chat page was set to
    if (chosen === 'dark' || chosen === 'light') document.documentElement.dataset.theme = chosen;
  } catch {
    // Storage may be forbidden: the system's choice holds then.
  }

  let timer = 0;

  function put(place, drawn) {
    if (!drawn || place.innerHTML === drawn.innerHTML) return;
    // Somebody who is in there with the keyboard keeps their place; a later look puts it in.
    if (!place.contains(document.activeElement)) place.innerHTML = drawn.innerHTML;
  }

  async function look() {
    clearTimeout(timer);
    let next = 15000;
    try {
      const answer = await fetch(location.pathname);
      if (answer.redirected || !answer.ok) return location.reload(); // logged out, or no longer there
      const now = new DOMParser().parseFromString(await answer.text(), 'text/html');
      for (const place of document.querySelectorAll('[data-live]')) put(place, now.getElementById(place.id));
      next = Number(now.querySelector('[data-again]')?.dataset.again ?? next);
    } catch {
      next = 5000; // The server is away for a moment.
    }
    timer = setTimeout(look, document.hidden ? Math.max(next, 5000) : next);
  }

  function line(form, name) {
    const item = document.createElement('li');
    const bar = document.createElement('progress');
    bar.max = 1;
    bar.value = 0;
    bar.setAttribute('aria-label', `${form.dataset.sending} ${name}`);
    item.append(`${form.dataset.sending} ${name} `, bar);
    form.querySelector('.sending').append(item);
    return { item, bar };
  }

  function send(form, file) {
    const { item, bar } = line(form, file.name);
    const fail = (sentence) => item.replaceChildren(`${file.name}: ${sentence}`);
    if (file.size > form.dataset.most * 1024 * 1024) {
      fail(form.dataset.large);
      return Promise.resolve(null);
    }
    return new Promise((settled) => {
      const request = new XMLHttpRequest();
      request.open('POST', form.action);
      request.setRequestHeader('Accept', 'application/json');
      request.responseType = 'json';
      request.upload.onprogress = (event) => {
        if (event.lengthComputable) bar.value = event.loaded / event.total;
      };
      request.onerror = () => {
        fail(form.dataset.lost);
        settled(null);
      };
      request.onload = () => {
        const said = request.response ?? {};
        if (request.status === 200) item.remove();
        else fail(said.problem ?? form.dataset.lost);
        if (request.status === 200) look();
        settled(request.status === 200 ? said.page : null);
      };
      const body = new FormData();
      body.append('files', file);
      request.send(body);
    });
  }

  async function sendAll(form, files) {
    let page = null;
    for (const file of files) page = (await send(form, file)) ?? page; // one after the other: each shows its own bar
    // A base that was made for the first file is not on this page yet.
    const elsewhere = page && new URL(page, location.href).pathname !== location.pathname;
    if (elsewhere && !document.querySelector('.sending li')) location.href = page;
  }

  function prepare(form) {
    const input = form.querySelector('input[type=file]');
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      sendAll(form, [...input.files]).then(() => form.reset());
    });
    for (const kind of ['dragenter', 'dragover']) {
      form.addEventListener(kind, (event) => {
        event.preventDefault();
        form.dataset.over = '';
      });
    }
    for (const kind of ['dragleave', 'drop']) form.addEventListener(kind, () => delete form.dataset.over);
    form.addEventListener('drop', (event) => {
      event.preventDefault();
      sendAll(form, [...event.dataTransfer.files]);
    });
  }

  document.addEventListener('DOMContentLoaded', () => {
    document.querySelectorAll('form[data-upload]').forEach(prepare);
    if (document.querySelector('[data-live]')) timer = setTimeout(look, 1000);
  });
})();

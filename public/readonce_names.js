// Gives names to buttons that show an icon alone, for screen readers and voice control, and mends roles that Chainlit
// gives to the wrong elements. Its own words stand in tooltips, which exist only while a pointer rests on them.
const zh = navigator.language.toLowerCase().startsWith('zh');
const word = (english, chinese) => (zh ? chinese : english);

const byId = {
  'sidebar-trigger-button': word('Show or hide the chats', '显示或隐藏聊天列表'),
  'new-chat-button': word('New chat', '新建聊天'),
  'search-chats-button': word('Search the chats', '搜索聊天'),
  'upload-button': word('Add documents', '添加文档'),
  'chat-submit': word('Send', '发送'),
  'stop-button': word('Stop', '停止'),
  'share-thread-button': word('Share this chat', '分享此聊天'),
  'theme-toggle': word('Light or dark', '浅色或深色'),
  'user-nav-button': word('Account', '账户'),
  'thread-options': word('Options of this chat', '此聊天的选项'),
  'side-view-resize': word('Width of the source', '来源栏宽度'),
};

const byIcon = {
  copy: word('Copy', '复制'),
  check: word('Copied', '已复制'),
  'thumbs-up': word('Good answer', '回答得好'),
  'thumbs-down': word('Bad answer', '回答得不好'),
  eye: word('Show the password', '显示密码'),
  'eye-off': word('Hide the password', '隐藏密码'),
  'share-2': word('Share this chat', '分享此聊天'),
  'arrow-left': word('Close the source', '关闭来源'),
  'arrow-down': word('To the newest words', '到最新内容'),
  x: word('Close', '关闭'),
  pencil: word('Edit', '编辑'),
  moon: word('Light or dark', '浅色或深色'),
  sun: word('Light or dark', '浅色或深色'),
  monitor: word('Light or dark', '浅色或深色'),
  ellipsis: word('Options', '选项'),
};

function nameOfIcon(button) {
  const classes = [...(button.querySelector('svg')?.classList || [])];
  return classes.map((each) => byIcon[each.replace('lucide-', '')]).find(Boolean);
}

// Chainlit says these in English, whatever the language.
const chinese = {
  'Toggle theme': '浅色或深色',
  'Toggle Sidebar': '显示或隐藏聊天列表',
  Close: '关闭',
  Suggestions: '建议',
  logo: '标志',
  Image: '图片',
  'Avatar for readonce': 'readonce 的头像',
};

function translate() {
  for (const attribute of ['aria-label', 'title', 'alt']) {
    for (const element of document.querySelectorAll(`[${attribute}]`)) {
      const said = chinese[element.getAttribute(attribute)];
      if (said) element.setAttribute(attribute, said);
    }
  }
  for (const element of document.querySelectorAll('.sr-only')) {
    const said = chinese[element.textContent.trim()];
    if (said) element.textContent = said;
  }
}

function nameButtons() {
  // A button that becomes another one (Send turns into Stop) keeps the name that it got here: it is looked at again.
  for (const button of document.querySelectorAll('button, [role="button"]')) {
    if (button.hasAttribute('aria-label') && !button.dataset.named) continue;
    if (button.textContent.trim() || button.title) continue;
    const name = byId[button.id] || nameOfIcon(button);
    if (!name || button.getAttribute('aria-label') === name) continue;
    button.setAttribute('aria-label', name);
    button.dataset.named = 'yes';
  }
}

function mendRoles() {
  // Chainlit has these in English whatever the language.
  for (const id of ['theme-toggle', 'sidebar-trigger-button', 'user-nav-button']) {
    const button = document.getElementById(id);
    if (button && button.getAttribute('aria-label') !== byId[id]) button.setAttribute('aria-label', byId[id]);
  }
  document.getElementById('upload-button')?.removeAttribute('role'); // It is a button, not a picture.
  // The way to the documents stands as a link in a button: the link is it.
  for (const around of document.querySelectorAll('#header button:has(> a[href]):not([role])')) {
    around.setAttribute('role', 'group');
    around.tabIndex = -1;
    const name = word('Documents', '文档');
    for (const element of [around, around.firstElementChild]) element.setAttribute('aria-label', name);
    for (const icon of around.querySelectorAll('img')) icon.alt = ''; // The link beside it says it.
    // The settings have one text for both languages.
    const texts = document.createTreeWalker(around, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) texts.currentNode.data = name;
  }
  for (const options of document.querySelectorAll('div#thread-options:not([role])')) {
    options.setAttribute('role', 'button');
    options.tabIndex = 0;
    // It stands in a button in a link: the link is the way to the chat, and a button can't hold another one.
    const around = options.closest('button[data-sidebar="menu-button"]');
    around?.setAttribute('role', 'group');
    if (around) {
      around.tabIndex = -1;
      around.setAttribute('aria-label', around.textContent.trim());
    }
  }
  for (const list of document.querySelectorAll('ul[data-sidebar="menu"]:not([role])')) list.setAttribute('role', 'group');
  for (const item of document.querySelectorAll('li[data-sidebar="menu-item"]:not([role])')) item.setAttribute('role', 'none');
  for (const handle of document.querySelectorAll('[role="separator"][data-resize-handle]')) {
    const controlled = handle.getAttribute('aria-controls');
    if (controlled && !document.getElementById(controlled)) handle.removeAttribute('aria-controls');
    if (!handle.hasAttribute('aria-label')) handle.setAttribute('aria-label', byId['side-view-resize']);
  }
}

let due = 0;
function mend() {
  due = 0;
  mendRoles();
  nameButtons();
  if (zh) translate();
}
new MutationObserver(() => {
  due ||= requestAnimationFrame(mend);
}).observe(document.documentElement, { childList: true, subtree: true, attributeFilter: ['id'] });
mend();

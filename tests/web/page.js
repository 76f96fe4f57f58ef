// What a page needs to use the server, without any library: POSTs, event streams, and WebSockets.

window.post = (url, message, fields, options = {}) =>
  fetch(url, {method: "POST", headers: fields, body: JSON.stringify(message), ...options});

// The messages of an event stream, as they arrive.
window.messagesOf = async function* (response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const data = event.split("\n").filter(line => line.startsWith("data: ")).map(line => line.slice(6));
      if (data.length) yield JSON.parse(data.join("\n"));
    }
  }
};

// What arrives, one after the other: `put` adds a value, and `next` waits for one.
window.mailbox = () => {
  const values = [], readers = [];
  return {
    put: value => readers.length ? readers.shift()(value) : values.push(value),
    next: () => values.length ? Promise.resolve(values.shift()) : new Promise(resolve => readers.push(resolve)),
  };
};

// An open WebSocket whose messages and end are in its mailbox; or what a page learns of one that is refused.
window.openWebSocket = (url, ...protocols) => new Promise(resolve => {
  const socket = new WebSocket(url, protocols);
  socket.mailbox = mailbox();
  socket.onopen = () => resolve(socket);
  socket.onmessage = event => socket.mailbox.put(JSON.parse(event.data));
  socket.onclose = event => { socket.mailbox.put({code: event.code}); resolve({code: event.code}); };
});

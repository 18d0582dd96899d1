// The server's API: requests with the key where one is needed, and streams of events that survive a broken connection.
const keyName = 'heddle-key';

export function apiKey() {
  return sessionStorage.getItem(keyName) || localStorage.getItem(keyName) || '';
}
// `keep`: in this browser, not only in this tab.
export function setApiKey(key, keep) {
  sessionStorage.removeItem(keyName);
  localStorage.removeItem(keyName);
  if (key) (keep ? localStorage : sessionStorage).setItem(keyName, key);
}

export class ApiError extends Error {
  constructor(status, message, code, param) {
    super(message);
    Object.assign(this, { status, code, param });
  }
}

let askForKey = null; // shows a dialog; resolves to true when there is another key
export function onKeyNeeded(ask) {
  askForKey = ask;
}

export async function request(path, { method = 'GET', body, headers = {}, signal } = {}) {
  for (;;) {
    const key = apiKey();
    const response = await fetch(path, {
      method,
      signal,
      cache: 'no-store',
      headers: {
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...(key ? { Authorization: `Bearer ${key}` } : {}),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (response.ok) return response;
    if (response.status === 401 && askForKey && (key !== apiKey() || (await askForKey(key !== '')))) continue;
    const text = await response.text();
    let error = {};
    try {
      const data = JSON.parse(text);
      error = data.error || { message: data.reason || data.status };
    } catch {
      /* not of this server: a proxy's page */
    }
    throw new ApiError(
      response.status,
      error.message || `${response.status} ${response.statusText}`,
      error.code,
      error.param,
    );
  }
}

export const getJson = async (path, options) => (await request(path, options)).json();
export const postJson = async (path, body, options) =>
  (await request(path, { method: 'POST', body, ...options })).json();

// The events of a stream, as the objects in their data.
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = '';
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      buffer += value;
      for (let end; (end = buffer.indexOf('\n\n')) >= 0; buffer = buffer.slice(end + 2)) {
        const data = buffer
          .slice(0, end)
          .split('\n')
          .filter((line) => line.startsWith('data: '))
          .map((line) => line.slice(6))
          .join('\n');
        if (data && data !== '[DONE]') yield JSON.parse(data);
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const isEnd = (event) => ['response.completed', 'response.incomplete', 'response.failed'].includes(event.type);

// The events of a response in the background, from `first`, the stream that created it, or from the server's copy. When
// the connection breaks, it goes on behind the last event. Ends after the last event of the response.
export async function* follow(id, first) {
  let last = -1,
    failures = 0,
    stream = first;
  for (;;) {
    try {
      const response =
        stream || (await request(`/v1/responses/${id}?stream=true${last >= 0 ? `&starting_after=${last}` : ''}`));
      stream = null;
      for await (const event of events(response)) {
        if (event.sequence_number <= last) continue;
        if (event.response && !id) id = event.response.id;
        last = event.sequence_number;
        failures = 0;
        yield event;
        if (isEnd(event)) return;
      }
    } catch (error) {
      stream = null;
      if (error instanceof ApiError && error.code === 'events_not_kept') {
        yield* poll(id);
        return;
      }
      if (error instanceof ApiError && error.status < 500) throw error;
      if (!id) throw error;
    }
    if (++failures > 8) throw new ApiError(0, 'the connection to the server is lost');
    await wait(Math.min(5000, 250 * 2 ** failures));
  }
}

async function* poll(id) {
  for (;;) {
    const response = await getJson(`/v1/responses/${id}`);
    if (response.status !== 'in_progress') {
      yield { type: 'response.completed', response, whole: true };
      return;
    }
    await wait(1000);
  }
}

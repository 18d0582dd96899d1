// Conversations in the browser: IndexedDB, or memory alone where there is none (private windows of some browsers).
const name = 'heddle',
  kind = 'conversations';

function openDatabase() {
  return new Promise((resolve) => {
    if (!self.indexedDB) return resolve(null);
    const request = indexedDB.open(name, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(kind, { keyPath: 'id' });
    request.onsuccess = () => resolve(request.result);
    request.onerror = request.onblocked = () => resolve(null);
  });
}

const done = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

export class Store {
  static async open() {
    const store = new Store();
    store.database = await openDatabase();
    store.memory = new Map();
    // another window of this page has changed something
    store.channel = self.BroadcastChannel ? new BroadcastChannel(name) : null;
    if (store.channel) store.channel.onmessage = (event) => store.onChange && store.onChange(event.data);
    return store;
  }
  get keeps() {
    return this.database !== null;
  }
  table(mode) {
    return this.database.transaction(kind, mode).objectStore(kind);
  }
  async all() {
    return this.database ? done(this.table('readonly').getAll()) : [...this.memory.values()];
  }
  async get(id) {
    return this.database ? done(this.table('readonly').get(id)) : this.memory.get(id);
  }
  async put(conversation) {
    if (this.database) await done(this.table('readwrite').put(conversation));
    else this.memory.set(conversation.id, structuredClone(conversation));
    if (this.channel) this.channel.postMessage(conversation.id);
  }
  async remove(id) {
    if (this.database) await done(this.table('readwrite').delete(id));
    else this.memory.delete(id);
    if (this.channel) this.channel.postMessage(id);
  }
}

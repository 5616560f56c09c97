// The event stream, by fetch and not EventSource, which can send no token. It comes back by itself.

const RETRY_MS = 1000;
const SLOWEST_MS = 5000;
const SILENCE_MS = 6000; // the service sends an event every second

export class Live {
  // `heard` is given every event, `idle` is called when there is no news, `lost` is told why the
  // stream has ended, and `refused` is called when a token is needed.
  constructor({ heard, idle, lost, refused }) {
    Object.assign(this, { heard, idle, lost, refused, turn: 0, wait: RETRY_MS });
  }

  // Watch something else from now on.
  watch(wish) {
    this.wish = wish;
    this.turn += 1;
    this.control?.abort();
    clearTimeout(this.timer);
    this.connect(this.turn);
  }

  async connect(turn) {
    let why = "the connection was closed";
    try {
      this.control = new AbortController();
      const token = sessionStorage.getItem("token");
      const response = await fetch(`api/v1/stream?${new URLSearchParams(this.wish)}`, {
        headers: token ? { Authorization: `Bearer ${token}` } : {},
        signal: this.control.signal,
        cache: "no-store",
      });
      if (response.status === 401) {
        sessionStorage.removeItem("token");
        if (turn === this.turn) this.refused();
        return;
      }
      if (response.status === 503) why = "too many pages are watching";
      else if (!response.ok) why = `the service answered ${response.status}`;
      else await this.read(response.body.getReader(), turn);
    } catch {
      why = "the service cannot be reached";
    }
    if (turn !== this.turn) return;
    this.lost(why);
    this.timer = setTimeout(() => this.connect(turn), this.wait);
    this.wait = Math.min(SLOWEST_MS, 2 * this.wait);
  }

  async read(reader, turn) {
    const decoder = new TextDecoder();
    let text = "";
    let silence = 0;
    const listen = () => {
      clearTimeout(silence);
      silence = setTimeout(() => reader.cancel(), SILENCE_MS);
    };
    try {
      for (;;) {
        listen();
        const { done, value } = await reader.read();
        if (done || turn !== this.turn) return;
        text += decoder.decode(value, { stream: true });
        const events = text.split("\n\n");
        text = events.pop();
        this.wait = RETRY_MS;
        for (const event of events) {
          if (event.startsWith("data: ")) this.heard(JSON.parse(event.slice("data: ".length)));
          else this.idle();
        }
      }
    } finally {
      clearTimeout(silence);
    }
  }
}

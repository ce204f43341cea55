/**
 * The connections that statements of this browser hold, over all of its windows: browsers open six to a server without TLS, and a
 * result that waits for its reader holds one. If too many are open, the oldest that waits is ended, in whichever window it is.
 */

/** Statements that may be open at once; the others of the six connections are for the page's own questions. */
export const PLACES_MAX = 4;
/** How long other windows have to answer, in milliseconds. */
const PATIENCE_MS = 200;

/** An open statement: when it was started, and whether it waits for its reader. */
export interface Open {
  key: string;
  since: number;
  waits: boolean;
}

export interface Held extends Open {
  window: string;
}

type Message =
  | { kind: 'tell'; window: string; open: Open[] }
  | { kind: 'ask' }
  | { kind: 'end'; window: string; key: string };

/** What must end so that one more has a place: the oldest that wait, and never one that runs. */
export function surplus(all: Held[], places: number): Held[] {
  const tooMany = Math.max(all.length + 1 - places, 0);
  return all.filter((each) => each.waits).sort((a, b) => a.since - b.since).slice(0, tooMany);
}

/** The channel on which windows tell each other what they hold. */
export class Places {
  private readonly channel = typeof BroadcastChannel === 'undefined' ? null : new BroadcastChannel('freestone-places');
  private readonly others = new Map<string, Open[]>();
  private own: Open[] = [];

  constructor(private readonly window: string, private readonly end: (key: string) => Promise<void>) {
    this.channel?.addEventListener('message', (event: MessageEvent<Message>) => this.heard(event.data));
    this.channel?.postMessage({ kind: 'ask' } satisfies Message);
  }

  private heard(message: Message): void {
    if (message.kind === 'tell') this.others.set(message.window, message.open);
    else if (message.kind === 'ask') this.tell(this.own);
    else if (message.window === this.window) void this.end(message.key);
  }

  /** Tells other windows what this one holds. */
  tell(open: Open[]): void {
    this.own = open;
    this.channel?.postMessage({ kind: 'tell', window: this.window, open } satisfies Message);
  }

  private all(): Held[] {
    const own = this.own.map((each) => ({ ...each, window: this.window }));
    return [...own, ...[...this.others].flatMap(([window, open]) => open.map((each) => ({ ...each, window })))];
  }

  /** Makes a place for one more statement, and returns how many were ended for it. */
  async take(): Promise<number> {
    if (surplus(this.all(), PLACES_MAX).length > 0 && this.others.size > 0) {
      // A window that has gone tells nothing: only those that answer count.
      this.others.clear();
      this.channel?.postMessage({ kind: 'ask' } satisfies Message);
      await new Promise((resolve) => setTimeout(resolve, PATIENCE_MS));
    }
    const ended = surplus(this.all(), PLACES_MAX);
    for (const { window, key } of ended) {
      if (window === this.window) await this.end(key);
      else this.channel?.postMessage({ kind: 'end', window, key } satisfies Message);
    }
    return ended.length;
  }
}

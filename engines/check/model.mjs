// What an engine has to answer: a map in order, and requests drawn from a fixed seed.
import { page, request } from './messages.mjs';

const NOTHING = Buffer.alloc(0);
const ok = (body = NOTHING) => ({ status: 0, body });
const INVALID = { status: 6 };

export class Model {
  /** `offers` is what the engine's description says. */
  constructor(offers) {
    this.offers = offers;
    this.keyMax = Number(offers.max_key_bytes ?? 1024);
    this.valueMax = Math.min(Number(offers.max_value_bytes ?? 65536), 65536);
    this.entries = new Map();
    this.seed = 42n;
    this.snapshots = 0;
  }

  /** A number from 0 to below `end` (a linear congruential generator modulo 2^64; its upper bits). */
  draw(end) {
    this.seed = (this.seed * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn;
    return Number((this.seed >> 33n) % BigInt(end));
  }

  key() {
    const number = this.draw(40);
    // Keys that begin others, keys with bytes above 127, and one of the greatest length.
    if (number === 0) return Buffer.alloc(Math.min(this.keyMax, 1024), 'k');
    if (number < 8) return Buffer.from('aaaaaaaa'.slice(0, number));
    if (number < 12) return Buffer.from([0, 255, number, 128]);
    return Buffer.from(`key-${number}`);
  }

  value() {
    const size = [0, 1, 40, 300, 1000, 5000, this.valueMax][this.draw(60) === 0 ? 6 : this.draw(6)];
    return Buffer.alloc(Math.min(size, this.valueMax), `v${this.draw(1000000)}.`);
  }

  /** The entries in order. */
  sorted(entries = this.entries) {
    return [...entries.values()].sort(([left], [right]) => Buffer.compare(left, right));
  }

  change(key, value) {
    if (value) this.entries.set(key.toString('hex'), [key, value]);
    else this.entries.delete(key.toString('hex'));
  }

  /** Steps: a message, what is due, and its name. */
  requests(count) {
    return Array.from({ length: count }, () => this.one()).flat();
  }

  one() {
    const isRelaxed = this.offers.relaxed && this.draw(2) === 0;
    const kind = this.draw(20);
    const how = isRelaxed ? ' (relaxed)' : '';
    if (kind < 8) {
      const [key, value] = [this.key(), this.value()];
      this.change(key, value);
      return [{ message: request.put(key, value, isRelaxed), expect: ok(), what: `put of ${value.length} bytes${how}` }];
    }
    if (kind < 11) {
      const key = this.key();
      this.change(key);
      return [{ message: request.delete(key, isRelaxed), expect: ok(), what: `delete${how}` }];
    }
    if (kind < 14 && this.offers.batch) {
      const changes = Array.from({ length: this.draw(5) }, () => ({ key: this.key(), value: this.draw(3) ? Buffer.from(`b${this.draw(1000)}`) : undefined }));
      changes.forEach(({ key, value }) => this.change(key, value));
      return [{ message: request.batch(changes, isRelaxed), expect: ok(), what: `batch of ${changes.length}${how}` }];
    }
    if (kind < 16 && this.offers.scan) return [this.scan()];
    if (kind === 16 && this.offers.sync) return [{ message: request.sync(), expect: ok(), what: 'sync' }];
    if (kind === 17 && this.offers.snapshot) return this.snapshot();
    return [this.get(this.key())];
  }

  get(key, entries = this.entries, snapshot = 0) {
    const found = entries.get(key.toString('hex'));
    return { message: request.get(key, snapshot), expect: found ? ok(found[1]) : { status: 1 }, what: `get ${JSON.stringify(key.toString('latin1').slice(0, 20))}` };
  }

  scan(entries = this.entries, snapshot = 0) {
    const [start, end] = [this.draw(2) ? this.key() : undefined, this.draw(2) ? this.key() : undefined];
    const isReverse = this.offers.reverse_scan && this.draw(2) === 0;
    const limit = [0, 1, 3, 1000][this.draw(4)];
    const maxBytes = [1, 2000, 1000000][this.draw(3)];
    let range = this.sorted(entries).filter(([key]) => (!start || Buffer.compare(key, start) >= 0) && (!end || Buffer.compare(key, end) < 0));
    if (isReverse) range = range.reverse();
    const taken = [];
    let bytes = 0;
    for (const [key, value] of range) {
      bytes += key.length + value.length;
      if (taken.length && (taken.length >= limit || bytes > maxBytes)) break;
      taken.push([key, value]);
    }
    const what = `${isReverse ? 'reverse ' : ''}scan from ${start ?? 'the first'} to ${end ?? 'the last'}, limit ${limit}, ${maxBytes} bytes`;
    return { message: request.scan({ start, end, isReverse, limit, maxBytes, snapshot }), expect: ok(page(taken, taken.length < range.length)), what };
  }

  /** A snapshot, a write behind it, what the snapshot shows, its release, and a use of it after that. Numbers count from 1 in each process run. */
  snapshot() {
    const number = ++this.snapshots;
    const old = new Map(this.entries);
    const [key, value] = [this.key(), Buffer.from('behind the snapshot')];
    this.change(key, value);
    return [
      { message: request.snapshot(), expect: ok(), accept: (body) => body.length === 8 && body.readBigUInt64LE() === BigInt(number), what: 'snapshot' },
      { message: request.put(key, value), expect: ok(), what: 'put behind a snapshot' },
      { ...this.get(key, old, number), what: 'get of a snapshot' },
      ...(this.offers.scan ? [{ ...this.scan(old, number), what: 'scan of a snapshot' }] : []),
      this.get(key),
      { message: request.release(number), expect: ok(), what: 'release' },
      { message: request.get(key, number), expect: INVALID, what: 'get of a released snapshot' },
    ];
  }

  /** All that there is, key by key and by scans. A new process run begins with it or ends after it. */
  readAll() {
    const steps = Array.from({ length: 40 }, () => this.get(this.key()));
    steps.push(...this.sorted().map(([key]) => this.get(key)));
    const all = this.sorted();
    if (this.offers.scan) steps.push({ message: request.scan({}), expect: ok(page(all, false)), what: 'scan of all' });
    if (this.offers.reverse_scan) steps.push({ message: request.scan({ isReverse: true }), expect: ok(page(all.reverse(), false)), what: 'reverse scan of all' });
    return steps;
  }

  /** What is wrong is refused and changes nothing. */
  wrongRequests() {
    const wrong = (message, what, status = 6) => ({ message, expect: { status, body: NOTHING }, what });
    const [key, value] = [Buffer.from('wrong'), Buffer.from('value')];
    const steps = [
      wrong(request.put(NOTHING, value), 'put of an empty key'),
      wrong(request.delete(NOTHING), 'delete of an empty key'),
      wrong(request.put(Buffer.alloc(this.keyMax + 1, 'k'), value), 'put of a key that is too long'),
      wrong(request.get(NOTHING), 'get of an empty key', [1, 6]),
      wrong(request.get(key, 999), 'get of an unknown snapshot'),
      wrong(request.scan({ snapshot: 999 }), 'scan of an unknown snapshot'),
      wrong(request.release(0), 'release of snapshot 0'),
    ];
    if (this.offers.batch) {
      steps.push(wrong(request.batch([{ key, value }, { key: NOTHING, value }]), 'batch with an empty key'));
      steps.push(wrong(request.batch([]), 'an empty batch', 0));
      const thrice = ['first', 'second', 'third'].map((it) => ({ key: Buffer.from('thrice'), value: Buffer.from(it) }));
      this.change(thrice[2].key, thrice[2].value);
      steps.push({ message: request.batch(thrice), expect: ok(), what: 'a batch with one key three times' }, this.get(thrice[2].key));
    } else {
      steps.push(wrong(request.batch([{ key, value }]), 'a batch where none are offered'));
    }
    if (!this.offers.relaxed) steps.push(wrong(request.put(key, value, true), 'a relaxed write where none are offered'));
    if (!this.offers.snapshot) steps.push(wrong(request.snapshot(), 'a snapshot where none are offered'));
    if (!this.offers.scan) steps.push(wrong(request.scan({}), 'a scan where none are offered'));
    return [...steps, this.get(key), wrong(open_twice(), 'an opening of what is open')];
  }

  /** All relaxed writes become durable by one durable write. */
  makeDurable() {
    const [key, value] = [Buffer.from('last'), Buffer.from(`${this.draw(1000000)}`)];
    this.change(key, value);
    this.snapshots = 0;
    return [{ message: request.put(key, value), expect: ok(), what: 'a durable put' }];
  }

  closing() {
    this.snapshots = 0;
    return [
      { message: request.close(), expect: ok(), what: 'close' },
      { message: request.get(Buffer.from('last')), expect: { status: 7 }, what: 'get after a close' },
    ];
  }
}

import { open as open_twice } from './messages.mjs';

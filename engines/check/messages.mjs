// The messages that kvsim sends to an engine, as bytes. The book's page "The guest ABI" has the payloads of requests.

const u32 = (number) => { const bytes = Buffer.alloc(4); bytes.writeUInt32LE(number); return bytes; };
const u64 = (number) => { const bytes = Buffer.alloc(8); bytes.writeBigUInt64LE(BigInt(number)); return bytes; };

/** A message of this kind. */
export const encode = (kind, payload) => Buffer.concat([u32(kind), payload]);

export const describe = () => encode(0, Buffer.alloc(0));

/** An opening with these lines `name=value`. */
export const open = (options = '') => encode(1, Buffer.concat([u64(0), Buffer.alloc(16, 7), u32(options.length), Buffer.from(options)]));

let last = 0;
const asked = (operation, isRelaxed, ...rest) => encode(2, Buffer.concat([u64(++last), Buffer.from([operation, isRelaxed ? 1 : 0, 0, 0]), ...rest]));

/** A request by name. Keys and values are buffers; a change is { key, value }, with no value if it deletes. */
export const request = {
  put: (key, value, isRelaxed) => asked(1, isRelaxed, u32(key.length), u32(value.length), key, value),
  delete: (key, isRelaxed) => asked(2, isRelaxed, u32(key.length), key),
  batch: (changes, isRelaxed) => asked(3, isRelaxed, u32(changes.length), ...changes.flatMap(({ key, value }) => {
    const bytes = value ?? Buffer.alloc(0);
    return [Buffer.from([value ? 0 : 1]), u32(key.length), u32(bytes.length), key, bytes];
  })),
  get: (key, snapshot = 0) => asked(4, false, u64(snapshot), u32(key.length), key),
  scan: ({ start, end, isReverse = false, limit = 0xffffffff, maxBytes = 0xffffffff, snapshot = 0 }) => {
    const [low, high] = [start ?? Buffer.alloc(0), end ?? Buffer.alloc(0)];
    const flags = Buffer.from([isReverse ? 1 : 0, (start ? 1 : 0) | (end ? 2 : 0), 0, 0]);
    return asked(5, false, u64(snapshot), flags, u32(limit), u32(maxBytes), u32(low.length), u32(high.length), low, high);
  },
  snapshot: () => asked(6, false),
  release: (snapshot) => asked(7, false, u64(snapshot)),
  sync: () => asked(8, false),
  close: () => asked(9, false),
};

/** The body of a scan's answer. */
export const page = (entries, more) => Buffer.concat([u32(entries.length), Buffer.from([more ? 1 : 0, 0, 0, 0]),
  ...entries.flatMap(([key, value]) => [u32(key.length), u32(value.length), key, value])]);

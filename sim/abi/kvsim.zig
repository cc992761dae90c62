//! kvsim.zig: the guest ABI of kvsim, version 1, in Zig.
//!
//! The book's page "The guest ABI" (book/src/guest-abi.md) says what each of these means; `kvsim.h` has the same in C. A test holds
//! every number here to the host's own.

pub const ABI_VERSION: u32 = 1;

// ---- Disk operations: the kinds of kvsim_disk_submit
pub const DISK_READ: u32 = 0;
pub const DISK_WRITE: u32 = 1;
pub const DISK_WRITE_THROUGH: u32 = 2;
pub const DISK_FLUSH: u32 = 3;
pub const DISK_DISCARD: u32 = 4;
pub const DISK_GROW: u32 = 5;
pub const DISK_BARRIER: u32 = 6;
pub const DISK_OK: u32 = 0;
pub const DISK_READ_ERROR: u32 = 1;
pub const DISK_WRITE_ERROR: u32 = 2;
pub const DISK_FLUSH_ERROR: u32 = 3;
pub const DISK_NO_SPACE: u32 = 4;

// ---- Opening: the payload of kv_open, by offset; all numbers are little-endian
pub const OPEN_ABI_VERSION: u32 = 0;
pub const OPEN_SECTOR: u32 = 4;
pub const OPEN_PHYSICAL_BLOCK: u32 = 8;
pub const OPEN_FLAGS: u32 = 12;
pub const OPEN_CAPACITY: u32 = 16;
pub const OPEN_MAX_CAPACITY: u32 = 24;
pub const OPEN_ATOMIC_WRITE: u32 = 32;
pub const OPEN_MEMORY: u32 = 40;
pub const OPEN_DATABASE_ID: u32 = 48;
pub const OPEN_OPTIONS_LENGTH: u32 = 64;
pub const OPEN_OPTIONS: u32 = 68;
pub const DEVICE_VOLATILE_CACHE: u32 = 1;
pub const DEVICE_WRITE_THROUGH: u32 = 2;
pub const DEVICE_DISCARD: u32 = 4;
pub const DEVICE_BARRIER: u32 = 8;

// ---- Requests: the payload of kv_request
pub const REQUEST_OPERATION: u32 = 0;
pub const REQUEST_DURABILITY: u32 = 1;
pub const PUT: u8 = 1;
pub const DELETE: u8 = 2;
pub const BATCH: u8 = 3;
pub const GET: u8 = 4;
pub const SCAN: u8 = 5;
pub const SNAPSHOT: u8 = 6;
pub const RELEASE: u8 = 7;
pub const SYNC: u8 = 8;
pub const CLOSE: u8 = 9;
pub const DURABLE: u8 = 0;
pub const RELAXED: u8 = 1;
pub const PUT_KEY_LENGTH: u32 = 4;
pub const PUT_VALUE_LENGTH: u32 = 8;
pub const PUT_KEY: u32 = 12;
pub const DELETE_KEY_LENGTH: u32 = 4;
pub const DELETE_KEY: u32 = 8;
pub const BATCH_COUNT: u32 = 4;
pub const BATCH_MUTATIONS: u32 = 8;
pub const MUTATION_KIND: u32 = 0;
pub const MUTATION_KEY_LENGTH: u32 = 1;
pub const MUTATION_VALUE_LENGTH: u32 = 5;
pub const MUTATION_KEY: u32 = 9;
pub const MUTATION_PUT: u8 = 0;
pub const MUTATION_DELETE: u8 = 1;
pub const GET_SNAPSHOT: u32 = 4;
pub const GET_KEY_LENGTH: u32 = 12;
pub const GET_KEY: u32 = 16;
pub const SCAN_SNAPSHOT: u32 = 4;
pub const SCAN_DIRECTION: u32 = 12;
pub const SCAN_BOUNDS: u32 = 13;
pub const SCAN_LIMIT: u32 = 16;
pub const SCAN_MAX_BYTES: u32 = 20;
pub const SCAN_START_LENGTH: u32 = 24;
pub const SCAN_END_LENGTH: u32 = 28;
pub const SCAN_KEYS: u32 = 32;
pub const SCAN_FORWARD: u8 = 0;
pub const SCAN_REVERSE: u8 = 1;
pub const SCAN_HAS_START: u8 = 1;
pub const SCAN_HAS_END: u8 = 2;
pub const RELEASE_SNAPSHOT: u32 = 4;

// ---- Replies
pub const OK: u32 = 0;
pub const NOT_FOUND: u32 = 1;
pub const CORRUPTION: u32 = 2;
pub const IO_ERROR: u32 = 3;
pub const NO_SPACE: u32 = 4;
pub const READ_ONLY: u32 = 5;
pub const INVALID: u32 = 6;
pub const CLOSED: u32 = 7;
pub const ENTRIES_COUNT: u32 = 0;
pub const ENTRIES_MORE: u32 = 4;
pub const ENTRIES: u32 = 8;
pub const ENTRY_KEY_LENGTH: u32 = 0;
pub const ENTRY_VALUE_LENGTH: u32 = 4;
pub const ENTRY_KEY: u32 = 8;

// ---- Limits
pub const KEY_BYTES_SURE: u32 = 1024;
pub const VALUE_BYTES_SURE: u32 = 65536;
pub const BATCH_BYTES_SURE: u32 = 8192;
pub const BATCH_MUTATION_BYTES: u32 = 64;
pub const MARKS_MAX: u32 = 4096;
pub const MARK_NAME_BYTES_MAX: u32 = 100;

// ---- Levels of log lines
pub const LOG_ERROR: u32 = 1;
pub const LOG_WARNING: u32 = 2;
pub const LOG_INFO: u32 = 3;
pub const LOG_DEBUG: u32 = 4;
pub const LOG_TRACE: u32 = 5;

// ---- Policies: the lines name=value of kv_policies; what no line names keeps its default
pub const POLICY_COMMIT_ORDER: []const u8 = "commit_order";
pub const POLICY_READS: []const u8 = "reads";
pub const POLICY_RECOVERY_SURVIVES: []const u8 = "recovery_survives";
pub const POLICY_EMPTY_COMMIT_COVERS: []const u8 = "empty_commit_covers";
pub const POLICY_RELAXED_SURVIVES_KILL: []const u8 = "relaxed_survives_kill";
pub const POLICY_RELAXED_WINDOW_NS: []const u8 = "relaxed_window_ns";
pub const POLICY_MAX_KEY_BYTES: []const u8 = "max_key_bytes";
pub const POLICY_MAX_VALUE_BYTES: []const u8 = "max_value_bytes";
pub const POLICY_DATA_PERCENT: []const u8 = "data_percent";
pub const POLICY_USABLE_PERCENT: []const u8 = "usable_percent";
pub const POLICY_OPENS_WHEN_FULL: []const u8 = "opens_when_full";
pub const POLICY_FULL_TAKES: []const u8 = "full_takes";

// ---- Imports

// ---- Exports: a guest defines these. Each but the first two returns the time of its next tick, or KVSIM_NEVER

// ---- The payloads' numbers, which need not be aligned

// ---- What a compiler calls even without a C library

/// No next wake-up.
pub const never: i64 = -1;

/// What kv_marks and kv_policies return: the address in the upper 32 bits, the length in the lower.
pub fn text(bytes: []const u8) i64 {
    return @bitCast(@as(u64, @intFromPtr(bytes.ptr)) << 32 | bytes.len);
}

const import = struct {
    extern "kvsim" fn disk_submit(tag: u64, kind: u32, offset: u64, buffer: ?[*]const u8, length: u32) void;
    extern "kvsim" fn reply(request: u64, status: u32, body: ?[*]const u8, length: u32) void;
    extern "kvsim" fn log(level: u32, text: [*]const u8, length: u32) void;
    extern "kvsim" fn panic(text: [*]const u8, length: u32) noreturn;
    extern "kvsim" fn mark(number: u32) void;
};

/// Starts a read into a buffer that has to stay where it is until the read has ended.
pub fn diskRead(tag: u64, offset: u64, buffer: []u8) void {
    import.disk_submit(tag, DISK_READ, offset, buffer.ptr, @intCast(buffer.len));
}

/// Starts a write, written through the cache or not; the bytes are copied at once.
pub fn diskWrite(tag: u64, kind: u32, offset: u64, bytes: []const u8) void {
    import.disk_submit(tag, kind, offset, bytes.ptr, @intCast(bytes.len));
}

/// Starts a flush or a barrier, a discard of `length` bytes at `offset`, or a growth to `offset` bytes.
pub fn diskOther(tag: u64, kind: u32, offset: u64, length: u32) void {
    import.disk_submit(tag, kind, offset, null, length);
}

/// Answers a request, exactly once; the body is copied at once.
pub fn reply(request: u64, status: u32, body: []const u8) void {
    import.reply(request, status, if (body.len == 0) null else body.ptr, @intCast(body.len));
}

/// A line for people.
pub fn log(level: u32, line: []const u8) void {
    import.log(level, line.ptr, @intCast(line.len));
}

/// Ends the process run with a verdict.
pub fn panic(message: []const u8) noreturn {
    import.panic(message.ptr, @intCast(message.len));
}

/// A point that kv_marks names was reached, counted from 0.
pub fn mark(number: u32) void {
    import.mark(number);
}

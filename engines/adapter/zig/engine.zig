//! A small key/value engine that keeps its data in one file: a log, read into memory by the opening. Behind kvsim's adapter.
//!
//! A record of the log, from its place in the file:
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 8 | checksum of the rest, begun with the place |
//! | 8 | 4 | bytes of changes |
//! | 12 | ... | changes: u8 kind (0 put, 1 delete), u32 key length, u32 value length, key, value |
//!
//! A write is one record, one pwrite and one fsync. The opening cuts off a torn record at the end and makes what is left durable: the file, and
//! the directory with the file's name. Options: `bug=no_directory_sync`, `bug=ack_before_sync`, `bug=tail_not_cut` or
//! `bug=checksum_not_checked` makes a mistake that kvsim finds. It never shortens its log, and damage inside of it is taken for its end.

const std = @import("std");
const kv = @import("kvsim_adapter.zig");

// The calls of the C library, as WASI's has them.
const O_DIRECTORY = 1 << 13;
const O_CREAT = 1 << 12;
const O_RDONLY = 1 << 26;
const O_RDWR = (1 << 26) | (1 << 28);
extern fn open(path: [*:0]const u8, flags: c_int, ...) c_int;
extern fn close(file: c_int) c_int;
extern fn pread(file: c_int, into: [*]u8, length: usize, offset: i64) isize;
extern fn pwrite(file: c_int, from: [*]const u8, length: usize, offset: i64) isize;
extern fn ftruncate(file: c_int, length: i64) c_int;
extern fn fsync(file: c_int) c_int;

const header = 12;
const Bug = enum { none, no_directory_sync, ack_before_sync, tail_not_cut, checksum_not_checked };
const Entry = struct { key: []const u8, value: []const u8 };
const memory = std.heap.c_allocator;

var file: c_int = -1;
/// Of the log. Bytes.
var end: usize = 0;
/// A call failed: nobody knows what is on the disk.
var is_read_only = false;
var bug: Bug = .none;
/// In the order of keys.
var entries: std.ArrayList(Entry) = .empty;

/// FNV-1a.
fn checksum(bytes: []const u8, place: usize) u64 {
    var hash: u64 = 0xcbf29ce484222325 ^ @as(u64, place);
    for (bytes) |byte| hash = (hash ^ byte) *% 0x100000001b3;
    return hash;
}

fn number(comptime T: type, bytes: []const u8) T {
    return std.mem.readInt(T, bytes[0..@sizeOf(T)], .little);
}

/// Where this key is, or belongs.
fn find(key: []const u8) usize {
    var low: usize = 0;
    var high = entries.items.len;
    while (low < high) {
        const middle = (low + high) / 2;
        if (std.mem.order(u8, entries.items[middle].key, key) == .lt) low = middle + 1 else high = middle;
    }
    return low;
}

fn isAt(at: usize, key: []const u8) bool {
    return at < entries.items.len and std.mem.eql(u8, entries.items[at].key, key);
}

fn own(bytes: []const u8) []const u8 {
    return memory.dupe(u8, bytes) catch @panic("no memory");
}

/// A change in memory.
fn apply(is_delete: bool, key: []const u8, value: []const u8) void {
    const at = find(key);
    if (isAt(at, key)) {
        memory.free(entries.items[at].value);
        if (is_delete) {
            memory.free(entries.items[at].key);
            _ = entries.orderedRemove(at);
        } else entries.items[at].value = own(value);
    } else if (!is_delete) {
        entries.insert(memory, at, .{ .key = own(key), .value = own(value) }) catch @panic("no memory");
    }
}

/// Applies the changes of a record; false if they are none.
fn replay(record: []const u8) bool {
    var rest = record;
    while (rest.len > 0) {
        if (rest.len < 9) return false;
        const key: u64 = number(u32, rest[1..]);
        const value: u64 = number(u32, rest[5..]);
        if (key + value > rest.len - 9) return false;
        const key_end = 9 + @as(usize, @intCast(key));
        const value_end = key_end + @as(usize, @intCast(value));
        apply(rest[0] == 1, rest[9..key_end], rest[key_end..value_end]);
        rest = rest[value_end..];
    }
    return true;
}

fn openLog(directory: [*:0]const u8, options: [*]const kv.Option, count: usize) callconv(.c) kv.Status {
    for (options[0..count]) |*option| {
        if (!std.mem.eql(u8, std.mem.span(option.name), "bug")) return kv.unknownOption(option);
        bug = std.meta.stringToEnum(Bug, std.mem.span(option.value)) orelse return kv.fail(.invalid, "no such bug");
    }
    var path: [256]u8 = undefined;
    const name = std.fmt.bufPrintSentinel(&path, "{s}/log", .{directory}, 0) catch return kv.fail(.invalid, "a path that is too long");
    file = open(name.ptr, O_RDWR | O_CREAT, @as(c_int, 0o644));
    if (file < 0) return kv.failErrno("open the log");
    var all: std.ArrayList(u8) = .empty;
    defer all.deinit(memory);
    while (true) {
        const room = all.addManyAsSlice(memory, 65536) catch @panic("no memory");
        const got = pread(file, room.ptr, room.len, @intCast(all.items.len - room.len));
        if (got < 0) return kv.failErrno("read the log");
        all.shrinkRetainingCapacity(all.items.len - room.len + @as(usize, @intCast(got)));
        if (got == 0) break;
    }
    const log = all.items;
    end = 0;
    while (log.len - end >= header) {
        const length: usize = number(u32, log[end + 8 ..]);
        if (length > log.len - end - header) break;
        const record = log[end .. end + header + length];
        if (bug != .checksum_not_checked and number(u64, record) != checksum(record[8..], end)) break;
        if (!replay(record[header..])) break;
        end += record.len;
    }
    if (bug == .tail_not_cut) end = log.len;
    if (end < log.len and ftruncate(file, @intCast(end)) != 0) return kv.failErrno("cut the log");
    if (fsync(file) != 0) return kv.failErrno("fsync the log");
    const folder = open(directory, O_RDONLY | O_DIRECTORY);
    if (folder < 0 or (bug != .no_directory_sync and fsync(folder) != 0)) return kv.failErrno("fsync the directory");
    _ = close(folder);
    return .ok;
}

fn batch(changes: [*]const kv.Change, count: usize, _: bool) callconv(.c) kv.Status {
    if (is_read_only) return kv.fail(.read_only, "a call failed; open the database anew");
    if (count == 0) return .ok; // every write before it is durable
    var record: std.ArrayList(u8) = .empty;
    defer record.deinit(memory);
    write(&record, changes[0..count]) catch @panic("no memory");
    const put_bytes = pwrite(file, record.items.ptr, record.items.len, @intCast(end));
    const is_durable = put_bytes == record.items.len and (bug == .ack_before_sync or fsync(file) == 0);
    end += record.items.len;
    if (!is_durable) {
        is_read_only = true;
        return kv.fail(.io_error, "write or fsync of the log");
    }
    for (changes[0..count]) |change| apply(change.is_delete, change.key.slice(), change.value.slice());
    return .ok;
}

fn write(record: *std.ArrayList(u8), changes: []const kv.Change) !void {
    try record.appendNTimes(memory, 0, header);
    for (changes) |change| {
        try record.append(memory, @intFromBool(change.is_delete));
        for ([_]usize{ change.key.length, change.value.length }) |length| {
            try record.appendSlice(memory, std.mem.asBytes(&std.mem.nativeToLittle(u32, @intCast(length))));
        }
        try record.appendSlice(memory, change.key.slice());
        try record.appendSlice(memory, change.value.slice());
    }
    std.mem.writeInt(u32, record.items[8..12], @intCast(record.items.len - header), .little);
    std.mem.writeInt(u64, record.items[0..8], checksum(record.items[8..], end), .little);
}

fn put(key: kv.Bytes, value: kv.Bytes, is_relaxed: bool) callconv(.c) kv.Status {
    return batch(&[_]kv.Change{.{ .key = key, .value = value }}, 1, is_relaxed);
}

fn drop(key: kv.Bytes, is_relaxed: bool) callconv(.c) kv.Status {
    return batch(&[_]kv.Change{.{ .is_delete = true, .key = key }}, 1, is_relaxed);
}

fn get(_: ?*anyopaque, key: kv.Bytes) callconv(.c) kv.Status {
    const at = find(key.slice());
    if (!isAt(at, key.slice())) return .not_found;
    kv.giveValue(entries.items[at].value);
    return .ok;
}

fn scan(_: ?*anyopaque, range: *const kv.Range) callconv(.c) kv.Status {
    var low = if (range.has_start) find(range.start.slice()) else 0;
    var high = if (range.has_end) find(range.end.slice()) else entries.items.len;
    while (low < high) {
        const at = if (range.is_reverse) high - 1 else low;
        if (range.is_reverse) high -= 1 else low += 1;
        if (!kv.giveEntry(entries.items[at].key, entries.items[at].value)) break;
    }
    return .ok;
}

/// Every answered write is durable; after a failure nobody knows.
fn sync() callconv(.c) kv.Status {
    return if (is_read_only) kv.fail(.read_only, "a call failed; open the database anew") else .ok;
}

fn closeLog() callconv(.c) kv.Status {
    _ = close(file);
    return sync();
}

export const kv_engine = kv.Engine{
    .engine = "log-in-zig 1",
    .settings = "fsync after each write",
    .offers_reverse_scan = true,
    .open = openLog,
    .put = put,
    .remove = drop,
    .batch = batch,
    .get = get,
    .scan = scan,
    .sync = sync,
    .close = closeLog,
};

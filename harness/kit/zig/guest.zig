//! A log-structured key/value engine for kvsim. Everything is in memory; a log on the device says how to get there.
//!
//! The device is two halves that hold the log in turn. A log begins with an image: one frame with all that is live. Each commit adds a frame
//! with what waits: one write, and one flush if anything in it has to be durable. When a half is full, and after each opening, the other
//! half gets an image, which is a commit too. So no block that holds acknowledged bytes is ever rewritten while they count, and an opening
//! fences its tail: frames that a crash left behind it belong to an older generation.
//!
//! A frame, from its place on the device:    0 u64 checksum of the rest, begun with the place
//!   8 u64 generation of the log            16 u32 number of the frame in its log
//!  20 u32 frames of the log that were durable when this one was written
//!  24 u32 bytes of mutations               28 u32 magic
//!  32 mutations as in a batch, then zeros to the end of the block
//!
//! Options: bug=ack_before_flush, bug=tail_not_fenced or bug=checksum_not_checked makes a mistake that `kvsim run` finds.

const std = @import("std");
const kvsim = @import("kvsim.zig");

const gpa = std.heap.wasm_allocator;
const header = 32;
const magic = 0x474f4c43;
const area_bytes_max = 8 << 20;
const key_max = 1024;
const value_max = 65536;
const Bytes = std.ArrayList(u8);

const policies = "max_key_bytes=1024\nmax_value_bytes=65536\n";
const Bug = enum { none, ack_before_flush, tail_not_fenced, checksum_not_checked };
/// What is under way; one operation at a time.
const Phase = enum { idle, opening_flush, opening_read, opening_check, writing, flushing };
const Waiter = struct { request: u64, is_relaxed: bool };

var bug: Bug = .none;
var phase: Phase = .idle;
var block: usize = 0;
var half: usize = 0;
/// Where the log starts, and where its next frame goes.
var start: usize = 0;
var end: usize = 0;
/// Of the log, and the newest that was seen.
var generation: u64 = 0;
var newest: u64 = 0;
/// Frames of the log, and how many of them are durable.
var sequence: u32 = 0;
var durable: u32 = 0;
var image_is_due = false;
var must_flush = false;
var read_only = false;
var closed = false;
var payload: Bytes = .empty;
var frame: Bytes = .empty;
var queue: Bytes = .empty;
var waiting: std.ArrayList(Waiter) = .empty;
var group: std.ArrayList(Waiter) = .empty;
/// What the opening reads, and one block of it once more.
var device: []u8 = &.{};
var again: []u8 = &.{};

fn noMemory() noreturn {
    kvsim.panic("out of memory");
}

pub const panic = std.debug.FullPanic(report);

fn report(message: []const u8, _: ?usize) noreturn {
    kvsim.panic(message);
}

// ---- The state: versions by key, and of each key the newest first ----

const Version = struct { key: []u8, value: ?[]u8, at: u64 };
var versions: std.ArrayList(Version) = .empty;
var snapshots: std.ArrayList(u64) = .empty;
var now_at: u64 = 0;
/// Of an image.
var live_bytes: usize = 0;

fn find(key: []const u8) usize {
    var low: usize = 0;
    var high = versions.items.len;
    while (low < high) {
        const middle = (low + high) / 2;
        if (std.mem.order(u8, versions.items[middle].key, key) == .lt) low = middle + 1 else high = middle;
    }
    return low;
}

fn isOf(index: usize, key: []const u8) bool {
    return index < versions.items.len and std.mem.eql(u8, versions.items[index].key, key);
}

const Entry = struct { key: []const u8, value: []const u8 };

/// The entry of the key whose newest version is at `index`, as a snapshot sees it; moves on to the next key.
fn seen(index: *usize, snapshot: u64) ?Entry {
    const key = versions.items[index.*].key;
    var found: ?Version = null;
    while (isOf(index.*, key)) : (index.* += 1) {
        const version = versions.items[index.*];
        if (found == null and (snapshot == 0 or version.at <= snapshot)) found = version;
    }
    const version = found orelse return null;
    return .{ .key = version.key, .value = version.value orelse return null };
}

fn drop(index: usize) void {
    const version = versions.orderedRemove(index);
    gpa.free(version.key);
    if (version.value) |value| gpa.free(value);
}

fn copy(bytes: []const u8) []u8 {
    return gpa.dupe(u8, bytes) catch noMemory();
}

fn apply(key: []const u8, value: ?[]const u8) void {
    const index = find(key);
    if (isOf(index, key)) {
        if (versions.items[index].value) |old| live_bytes -= kvsim.MUTATION_KEY + key.len + old.len;
        if (snapshots.items.len == 0) drop(index);
    }
    if (value == null and snapshots.items.len == 0) return;
    if (value) |new| live_bytes += kvsim.MUTATION_KEY + key.len + new.len;
    now_at += 1;
    const version: Version = .{ .key = copy(key), .value = if (value) |new| copy(new) else null, .at = now_at };
    versions.insert(gpa, index, version) catch noMemory();
}

fn u32At(bytes: []const u8, at: usize) u32 {
    return std.mem.readInt(u32, bytes[at..][0..4], .little);
}

fn u64At(bytes: []const u8, at: usize) u64 {
    return std.mem.readInt(u64, bytes[at..][0..8], .little);
}

const Change = struct { key: []const u8, value: ?[]const u8, rest: []const u8 };

/// The first mutation as it stands in a batch; nothing if it is none.
fn first(bytes: []const u8) ?Change {
    if (bytes.len < kvsim.MUTATION_KEY) return null;
    const key_length = u32At(bytes, kvsim.MUTATION_KEY_LENGTH);
    const value_length = u32At(bytes, kvsim.MUTATION_VALUE_LENGTH);
    if (key_length == 0 or key_length > key_max or value_length > value_max) return null;
    const rest = bytes[kvsim.MUTATION_KEY..];
    if (rest.len < key_length + value_length) return null;
    const value = rest[key_length..][0..value_length];
    const is_put = bytes[kvsim.MUTATION_KIND] == kvsim.MUTATION_PUT;
    return .{ .key = rest[0..key_length], .value = if (is_put) value else null, .rest = rest[key_length + value_length ..] };
}

/// Applies mutations as they stand in a batch.
fn applyAll(bytes: []const u8) void {
    var rest = bytes;
    while (first(rest)) |change| : (rest = change.rest) apply(change.key, change.value);
}

fn put(to: *Bytes, bytes: []const u8) void {
    to.appendSlice(gpa, bytes) catch noMemory();
}

fn putNumber(to: *Bytes, comptime T: type, number: T) void {
    var bytes: [@sizeOf(T)]u8 = undefined;
    std.mem.writeInt(T, &bytes, number, .little);
    put(to, &bytes);
}

fn putMutation(to: *Bytes, key: []const u8, value: ?[]const u8) void {
    const bytes = value orelse "";
    put(to, &.{if (value == null) kvsim.MUTATION_DELETE else kvsim.MUTATION_PUT});
    putNumber(to, u32, @intCast(key.len));
    putNumber(to, u32, @intCast(bytes.len));
    put(to, key);
    put(to, bytes);
}

// ---- The log ----

/// FNV-1a.
fn checksum(bytes: []const u8, place: usize) u64 {
    var hash: u64 = 0xcbf29ce484222325 ^ @as(u64, place);
    for (bytes) |byte| hash = (hash ^ byte) *% 0x100000001b3;
    return hash;
}

fn padded(bytes: usize) usize {
    return (bytes + block - 1) / block * block;
}

/// Writes what waits, if nothing is under way: a frame behind the others, or an image into the other half.
fn commit() void {
    if (phase != .idle or waiting.items.len == 0) return;
    if (end + padded(header + queue.items.len) > start + half) image_is_due = true;
    frame.clearRetainingCapacity();
    frame.appendNTimes(gpa, 0, header) catch noMemory();
    if (image_is_due) {
        start = if (start == 0) half else 0;
        end = start;
        newest += 1;
        generation = newest;
        sequence = 0;
        durable = 0;
        var index: usize = 0;
        while (index < versions.items.len) if (seen(&index, 0)) |entry| putMutation(&frame, entry.key, entry.value);
    } else {
        put(&frame, queue.items);
    }
    std.mem.swap(std.ArrayList(Waiter), &group, &waiting);
    waiting.clearRetainingCapacity();
    queue.clearRetainingCapacity();
    must_flush = image_is_due;
    writeFrame();
}

/// Writes `frame`, a header's room and mutations, behind the other frames.
fn writeFrame() void {
    const length = frame.items.len;
    const bytes = frame.items;
    std.mem.writeInt(u64, bytes[8..16], generation, .little);
    for ([_]u32{ sequence, durable, @intCast(length - header), magic }, 0..) |number, at| {
        std.mem.writeInt(u32, bytes[16 + 4 * at ..][0..4], number, .little);
    }
    std.mem.writeInt(u64, bytes[0..8], checksum(bytes[8..], end), .little);
    frame.appendNTimes(gpa, 0, padded(length) - length) catch noMemory();
    kvsim.diskWrite(1, kvsim.DISK_WRITE, end, frame.items);
    end += frame.items.len;
    sequence += 1;
    phase = .writing;
}

/// Answers the requests of the group, or only the relaxed ones; says whether some are left.
fn answerGroup(status: u32, only_relaxed: bool) bool {
    var left: usize = 0;
    for (group.items) |waiter| {
        if (only_relaxed and !waiter.is_relaxed) {
            group.items[left] = waiter;
            left += 1;
        } else kvsim.reply(waiter.request, status, "");
    }
    group.shrinkRetainingCapacity(left);
    return left > 0;
}

/// The device failed: nothing that is under way is certain, and nothing more is written until the next opening.
fn fail() void {
    read_only = true;
    _ = answerGroup(kvsim.IO_ERROR, false);
    std.mem.swap(std.ArrayList(Waiter), &group, &waiting);
    queue.clearRetainingCapacity();
    _ = answerGroup(kvsim.IO_ERROR, false);
}

/// The bytes of the frame at this place of the device, if it is whole.
fn whole(place: usize) ?[]const u8 {
    const room = device[place .. place - place % half + half];
    if (u32At(room, 28) != magic or u32At(room, 24) > room.len - header) return null;
    const found = room[0 .. header + u32At(room, 24)];
    if (bug != .checksum_not_checked and u64At(found, 0) != checksum(found[8..], place)) return null;
    return found;
}

/// Reads the newest log into memory, and opens with an image of it.
fn recover() void {
    for ([_]usize{ 0, half }) |place| {
        const image = whole(place) orelse continue;
        if (u32At(image, 16) != 0 or u64At(image, 8) <= generation) continue;
        generation = u64At(image, 8);
        newest = generation;
        start = place;
        end = place;
    }
    while (generation > 0 and end < start + half) {
        const found = whole(end) orelse break;
        if (u64At(found, 8) != generation or u32At(found, 16) != sequence) break;
        applyAll(found[header..]);
        end += padded(found.len);
        sequence += 1;
    }
    // What follows is torn or never came, unless a later frame says that it was durable: then it is damaged, and not to be cut off.
    var place: usize = 0;
    while (place < 2 * half) : (place += block) {
        const its = u64At(device, place + 8);
        const known = if (its == generation) sequence else 0;
        if (bug == .none and its >= generation and u32At(device, place + 20) > known and whole(place) != null)
            return kvsim.reply(0, kvsim.CORRUPTION, "a frame of the log is damaged, and a later one says that it was durable");
    }
    const fences = bug != .tail_not_fenced;
    if (!fences and end < start + half and u32At(device, end + 28) == magic) { // The torn frame stays in the way.
        end += padded(header + u32At(device, end + 24) % half);
        sequence += 1;
    }
    durable = sequence;
    image_is_due = fences or generation == 0;
    phase = .idle;
    // The opening itself, answered when the image is durable.
    waiting.append(gpa, .{ .request = 0, .is_relaxed = false }) catch noMemory();
    commit();
}

// ---- What the host calls ----

export fn kv_abi_version() u32 {
    return kvsim.ABI_VERSION;
}

export fn kv_policies() i64 {
    return kvsim.text(policies);
}

export fn kv_tick(_: u64) i64 {
    return kvsim.never;
}

export fn kv_buffer(length: u32) [*]u8 {
    payload.resize(gpa, @max(length, 1)) catch noMemory();
    return payload.items.ptr;
}

/// Takes the options; false if one of them is none, which is answered then.
fn setOptions(text: []const u8) bool {
    var lines = std.mem.tokenizeScalar(u8, text, '\n');
    while (lines.next()) |line| {
        const name = if (std.mem.startsWith(u8, line, "bug=")) line[4..] else "";
        const found = std.meta.stringToEnum(Bug, name) orelse .none;
        if (found == .none) {
            kvsim.reply(0, kvsim.INVALID, line);
            return false;
        }
        bug = found;
    }
    return true;
}

export fn kv_open(_: u64, opening: [*]const u8, length: u32) i64 {
    const open = opening[0..length];
    block = @max(u32At(open, kvsim.OPEN_SECTOR), u32At(open, kvsim.OPEN_PHYSICAL_BLOCK));
    const capacity: usize = @intCast(@min(u64At(open, kvsim.OPEN_CAPACITY), area_bytes_max));
    half = capacity / 2 / block * block;
    if (u32At(open, kvsim.OPEN_ABI_VERSION) != kvsim.ABI_VERSION or half < 8 * block) {
        kvsim.reply(0, kvsim.INVALID, "another version of the ABI, or a device of less than 16 blocks");
    } else if (setOptions(open[kvsim.OPEN_OPTIONS..])) {
        // What a killed process has left in the cache has to be durable before it is shown.
        kvsim.diskOther(1, kvsim.DISK_FLUSH, 0, 0);
        phase = .opening_flush;
    }
    return kvsim.never;
}

export fn kv_complete(_: u64, _: u64, status: u32, _: u32) i64 {
    const is_opening = phase == .opening_flush or phase == .opening_read or phase == .opening_check;
    if (status != kvsim.DISK_OK) {
        if (is_opening) kvsim.reply(0, kvsim.IO_ERROR, "the device failed during the opening") else fail();
    } else switch (phase) {
        .opening_flush => {
            device = gpa.alloc(u8, 2 * half) catch noMemory();
            kvsim.diskRead(1, 0, device);
            phase = .opening_read;
        },
        .opening_read => { // A read that is out of date is whole and wrong: so one block is read twice.
            again = gpa.alloc(u8, block) catch noMemory();
            kvsim.diskRead(1, half, again);
            phase = .opening_check;
        },
        .opening_check => {
            if (std.mem.eql(u8, again, device[half..][0..block])) recover() else kvsim.reply(0, kvsim.CORRUPTION, "two reads of one block differ");
            gpa.free(device);
            gpa.free(again);
        },
        .writing, .flushing, .idle => {
            if (phase == .writing and (answerGroup(kvsim.OK, bug != .ack_before_flush) or must_flush)) {
                kvsim.diskOther(1, kvsim.DISK_FLUSH, 0, 0);
                phase = .flushing;
                return kvsim.never;
            }
            if (phase == .flushing) durable = sequence;
            if (image_is_due) { // An empty frame says that the image is durable: should it be damaged later, it is not taken for torn.
                image_is_due = false;
                frame.shrinkRetainingCapacity(header);
                writeFrame();
                return kvsim.never;
            }
            _ = answerGroup(kvsim.OK, false);
            phase = .idle;
            commit();
        },
    }
    return kvsim.never;
}

/// A write, a sync or a close: it waits for its turn. What it changes is seen at once.
fn enqueue(request: u64, is_relaxed: bool, changes: []const u8) void {
    if (read_only) return kvsim.reply(request, kvsim.READ_ONLY, "the device failed; open the database anew");
    var grows = false;
    var rest = changes;
    while (rest.len > 0) {
        const change = first(rest) orelse
            return kvsim.reply(request, kvsim.INVALID, "a key has 1 to 1,024 bytes, a value at most 65,536");
        grows = grows or change.value != null;
        rest = change.rest;
    }
    if (grows and header + live_bytes + changes.len > half - block) return kvsim.reply(request, kvsim.NO_SPACE, "no room for another image");
    applyAll(changes);
    put(&queue, changes);
    waiting.append(gpa, .{ .request = request, .is_relaxed = is_relaxed }) catch noMemory();
    commit();
}

fn scan(request: u64, asked: []const u8, snapshot: u64) void {
    const keys = asked[kvsim.SCAN_KEYS..];
    const from = keys[0..u32At(asked, kvsim.SCAN_START_LENGTH)];
    const bounds = asked[kvsim.SCAN_BOUNDS];
    const is_reverse = asked[kvsim.SCAN_DIRECTION] == kvsim.SCAN_REVERSE;
    var low = if (bounds & kvsim.SCAN_HAS_START != 0) find(from) else 0;
    var high = if (bounds & kvsim.SCAN_HAS_END != 0) find(keys[from.len..]) else versions.items.len;
    var answer: Bytes = .empty;
    defer answer.deinit(gpa);
    answer.appendNTimes(gpa, 0, kvsim.ENTRIES) catch noMemory();
    var count: u32 = 0;
    var bytes: usize = 0;
    while (low < high) {
        const here = if (is_reverse) find(versions.items[high - 1].key) else low;
        var next = here;
        const found = seen(&next, snapshot);
        if (is_reverse) high = here else low = next;
        const entry = found orelse continue;
        bytes += entry.key.len + entry.value.len;
        if (count > 0 and (count >= u32At(asked, kvsim.SCAN_LIMIT) or bytes > u32At(asked, kvsim.SCAN_MAX_BYTES))) {
            answer.items[kvsim.ENTRIES_MORE] = 1;
            break;
        }
        putNumber(&answer, u32, @intCast(entry.key.len));
        putNumber(&answer, u32, @intCast(entry.value.len));
        put(&answer, entry.key);
        put(&answer, entry.value);
        count += 1;
    }
    std.mem.writeInt(u32, answer.items[0..4], count, .little);
    kvsim.reply(request, kvsim.OK, answer.items);
}

fn release(request: u64, snapshot: u64) void {
    const at = std.mem.findScalar(u64, snapshots.items, snapshot) orelse unreachable;
    _ = snapshots.swapRemove(at);
    var index = versions.items.len;
    while (snapshots.items.len == 0 and index > 0) { // Nobody sees the old versions any more.
        index -= 1;
        const version = versions.items[index];
        if ((index > 0 and isOf(index - 1, version.key)) or version.value == null) drop(index);
    }
    kvsim.reply(request, kvsim.OK, "");
}

export fn kv_request(_: u64, request: u64, payload_at: [*]const u8, length: u32) i64 {
    const asked = payload_at[0..length];
    const operation = asked[kvsim.REQUEST_OPERATION];
    const is_relaxed = asked[kvsim.REQUEST_DURABILITY] == kvsim.RELAXED;
    const has_snapshot = operation == kvsim.GET or operation == kvsim.SCAN or operation == kvsim.RELEASE;
    const snapshot = if (has_snapshot) u64At(asked, kvsim.GET_SNAPSHOT) else 0;
    const is_known = if (snapshot == 0) operation != kvsim.RELEASE else std.mem.findScalar(u64, snapshots.items, snapshot) != null;
    var one: Bytes = .empty;
    defer one.deinit(gpa);
    if (closed) {
        kvsim.reply(request, kvsim.CLOSED, "the database is closed");
    } else if (!is_known) {
        kvsim.reply(request, kvsim.INVALID, "no such snapshot");
    } else switch (operation) {
        kvsim.PUT => {
            const key = asked[kvsim.PUT_KEY..][0..u32At(asked, kvsim.PUT_KEY_LENGTH)];
            putMutation(&one, key, asked[kvsim.PUT_KEY + key.len ..]);
            enqueue(request, is_relaxed, one.items);
        },
        kvsim.DELETE => {
            putMutation(&one, asked[kvsim.DELETE_KEY..], null);
            enqueue(request, is_relaxed, one.items);
        },
        kvsim.BATCH => enqueue(request, is_relaxed, asked[kvsim.BATCH_MUTATIONS..]),
        kvsim.GET => {
            var index = find(asked[kvsim.GET_KEY..]);
            const found = if (isOf(index, asked[kvsim.GET_KEY..])) seen(&index, snapshot) else null;
            if (found) |entry| kvsim.reply(request, kvsim.OK, entry.value) else kvsim.reply(request, kvsim.NOT_FOUND, "");
        },
        kvsim.SCAN => scan(request, asked, snapshot),
        kvsim.SNAPSHOT => {
            now_at += 1;
            snapshots.append(gpa, now_at) catch noMemory();
            putNumber(&one, u64, now_at);
            kvsim.reply(request, kvsim.OK, one.items);
        },
        kvsim.RELEASE => release(request, snapshot),
        else => { // Sync and close: durable, and nothing in them.
            enqueue(request, false, "");
            closed = operation == kvsim.CLOSE;
        },
    }
    return kvsim.never;
}

//! kvsim_adapter.h in Zig: a storage engine that uses files, behind kvsim's messages. The header says what each of these means.
//!
//! An engine exports a constant `kv_engine` of type `Engine`. adapter.c is compiled beside it and does the rest.

pub const Status = enum(c_int) {
    ok = 0,
    not_found = 1,
    corruption = 2,
    io_error = 3,
    no_space = 4,
    read_only = 5,
    invalid = 6,
    closed = 7,
};

/// Borrowed bytes; valid during the call.
pub const Bytes = extern struct {
    data: ?[*]const u8,
    length: usize,

    pub fn slice(self: Bytes) []const u8 {
        return if (self.data) |data| data[0..self.length] else &.{};
    }
};

pub const Option = extern struct { name: [*:0]const u8, value: [*:0]const u8 };

pub const Change = extern struct { is_delete: bool = false, key: Bytes, value: Bytes = .{ .data = null, .length = 0 } };

pub const Range = extern struct { is_reverse: bool, has_start: bool, has_end: bool, start: Bytes, end: Bytes };

pub const Engine = extern struct {
    engine: [*:0]const u8,
    settings: [*:0]const u8,
    order: [*:0]const u8 = "prefix",
    policies: [*:0]const u8 = "",
    max_key_bytes: usize = 0,
    max_value_bytes: usize = 0,
    offers_relaxed: bool = false,
    offers_reverse_scan: bool = false,
    open: *const fn ([*:0]const u8, [*]const Option, usize) callconv(.c) Status,
    put: *const fn (Bytes, Bytes, bool) callconv(.c) Status,
    remove: *const fn (Bytes, bool) callconv(.c) Status,
    batch: ?*const fn ([*]const Change, usize, bool) callconv(.c) Status = null,
    get: *const fn (?*anyopaque, Bytes) callconv(.c) Status,
    scan: ?*const fn (?*anyopaque, *const Range) callconv(.c) Status = null,
    snapshot: ?*const fn (*?*anyopaque) callconv(.c) Status = null,
    release: ?*const fn (*anyopaque) callconv(.c) void = null,
    sync: ?*const fn () callconv(.c) Status = null,
    close: *const fn () callconv(.c) Status,
    idle: ?*const fn () callconv(.c) void = null,
};

extern fn kv_value(data: [*]const u8, length: usize) void;
extern fn kv_entry(key: [*]const u8, key_length: usize, value: [*]const u8, value_length: usize) bool;
extern fn kv_fail(status: Status, format: [*:0]const u8, ...) Status;
extern fn kv_fail_errno(what: [*:0]const u8) Status;
extern fn kv_unknown_option(option: *const Option) Status;

/// The value that a get found; copied at once.
pub fn giveValue(value: []const u8) void {
    kv_value(value.ptr, value.len);
}

/// The next entry of a scan; copied at once. False: the page is full, and the engine ends its scan.
pub fn giveEntry(key: []const u8, value: []const u8) bool {
    return kv_entry(key.ptr, key.len, value.ptr, value.len);
}

/// A status with a message for people.
pub fn fail(status: Status, message: [*:0]const u8) Status {
    return kv_fail(status, "%s", message);
}

/// The status and the message that fit errno. `what` names the call.
pub const failErrno = kv_fail_errno;

/// Invalid, with the option's name.
pub const unknownOption = kv_unknown_option;

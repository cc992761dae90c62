;; A small guest that behaves: it counts puts in its memory and in the first sector of the device.
;; Opening reads the sector. A put adds one to both counts, writes the sector, flushes, and answers. A get is answered at once with
;; both counts, as u32 each: those of this process run, those on the device. A sync is answered by a tick, 1 ms later. One at a time.
(module
  (import "kvsim" "disk_submit" (func $submit (param i64 i32 i64 i32 i32)))
  (import "kvsim" "reply" (func $reply (param i64 i32 i32 i32)))
  (import "kvsim" "log" (func $log (param i32 i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 2048) "opened")
  (global $counted (mut i32) (i32.const 0))
  (global $asked (mut i64) (i64.const 0))
  (func (export "kv_abi_version") (result i32) i32.const 1)
  ;; The sector lies at 0, a get's answer at 1024, payloads from 4096.
  (func (export "kv_buffer") (param i32) (result i32) i32.const 4096)
  (func (export "kv_open") (param i64 i32 i32) (result i64)
    (call $submit (i64.const 1) (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 512))
    i64.const -1)
  (func (export "kv_request") (param $now i64) (param $id i64) (param $at i32) (param i32) (result i64)
    (local $op i32)
    (local.set $op (i32.load8_u (local.get $at)))
    (if (i32.eq (local.get $op) (i32.const 4)) (then
      (i32.store (i32.const 1024) (global.get $counted))
      (i32.store (i32.const 1028) (i32.load (i32.const 0)))
      (call $reply (local.get $id) (i32.const 0) (i32.const 1024) (i32.const 8))
      (return (i64.const -1))))
    (global.set $asked (local.get $id))
    (if (i32.eq (local.get $op) (i32.const 8)) (then
      (return (i64.add (local.get $now) (i64.const 1000000)))))
    (global.set $counted (i32.add (global.get $counted) (i32.const 1)))
    (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1)))
    (call $submit (i64.const 2) (i32.const 1) (i64.const 0) (i32.const 0) (i32.const 512))
    i64.const -1)
  (func (export "kv_complete") (param i64) (param $tag i64) (param $status i32) (param i32) (result i64)
    (if (local.get $status) (then unreachable))
    (if (i64.eq (local.get $tag) (i64.const 2)) (then
      (call $submit (i64.const 3) (i32.const 3) (i64.const 0) (i32.const 0) (i32.const 0))
      (return (i64.const -1))))
    (if (i64.eq (local.get $tag) (i64.const 1)) (then
      (call $log (i32.const 4) (i32.const 2048) (i32.const 6))
      (call $reply (i64.const 0) (i32.const 0) (i32.const 0) (i32.const 0))
      (return (i64.const -1))))
    (call $reply (global.get $asked) (i32.const 0) (i32.const 0) (i32.const 0))
    i64.const -1)
  (func (export "kv_tick") (param i64) (result i64)
    (call $reply (global.get $asked) (i32.const 0) (i32.const 0) (i32.const 0))
    i64.const -1))

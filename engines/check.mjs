#!/usr/bin/env node
// Checks that engines built for WASI preview 1 work at all, on a real directory and without kvsim:
//   node engines/check.mjs FILE.wasm ...
// Each module is asked to describe itself and to open; then come 200 requests of what it offers, drawn from a fixed seed, and every answer is
// compared with a map. It is closed and opened again, killed after 50 more writes and opened again, and asked what the contract says of
// wrong requests. A reactor and a command (messages on stdin and stdout) are both taken. Exit 1 if a module fails, with what was due.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import v8 from 'node:v8';
import { imports as mappings } from './check/mapping.mjs';
import { describe, encode, open, request } from './check/messages.mjs';
import { Model } from './check/model.mjs';

// Node 20's quick calls of WASI end the process by a fault of memory after some seconds; without them it is slower and safe.
v8.setFlagsFromString('--no-turbo-fast-api-calls');
// Node calls its WASI experimental, each time; nothing here depends on what may change.
process.removeAllListeners('warning');
const { WASI } = await import('node:wasi');

/** A module that runs on a directory: `ask` sends one message and gives the answer's status and body. */
class Reactor {
  constructor(module, directory, errors) {
    const wasi = new WASI({ version: 'preview1', preopens: { '/db': directory, '/': directory }, stderr: errors, args: ['engine'], returnOnExit: true });
    const memory = () => new Uint8Array(this.instance.exports.memory.buffer);
    const { wasi_snapshot_preview1, kvsim } = mappings(wasi.wasiImport, memory);
    this.instance = new WebAssembly.Instance(module, { wasi_snapshot_preview1, kvsim });
    wasi.initialize(this.instance);
    this.memory = memory;
  }
  ask(message) {
    const { kv_buffer, kv_message } = this.instance.exports;
    const address = kv_buffer(message.length) >>> 0;
    this.memory().set(message, address);
    const answer = BigInt.asUintN(64, kv_message(message.length));
    const [at, length] = [Number(answer >> 32n), Number(answer & 0xffffffffn)];
    const bytes = Buffer.from(this.memory().slice(at, at + length));
    if (bytes.length < 4) throw new Error(`an answer of ${bytes.length} bytes`);
    return { status: bytes.readUInt32LE(0), body: bytes.subarray(4) };
  }
}

/** Runs a command over all messages at once and gives all answers. */
function command(module, directory, errors, messages) {
  const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'kvsim-check-'));
  const [input, output] = [path.join(scratch, 'in'), path.join(scratch, 'out')];
  const length = (bytes) => { const four = Buffer.alloc(4); four.writeUInt32LE(bytes.length); return four; };
  fs.writeFileSync(input, Buffer.concat(messages.flatMap((it) => [length(it), it])));
  const [stdin, stdout] = [fs.openSync(input, 'r'), fs.openSync(output, 'w')];
  const wasi = new WASI({ version: 'preview1', preopens: { '/db': directory, '/': directory }, stdin, stdout, stderr: errors, args: ['engine'], returnOnExit: true });
  let instance = null;
  const { wasi_snapshot_preview1, kvsim } = mappings(wasi.wasiImport, () => new Uint8Array(instance.exports.memory.buffer));
  instance = new WebAssembly.Instance(module, { wasi_snapshot_preview1, kvsim });
  const code = wasi.start(instance);
  if (code !== 0) throw new Error(`the command ended with ${code}`);
  [stdin, stdout].forEach((fd) => fs.closeSync(fd));
  const bytes = fs.readFileSync(output);
  fs.rmSync(scratch, { recursive: true });
  const answers = [];
  for (let at = 0; at < bytes.length;) {
    const end = at + 4 + bytes.readUInt32LE(at);
    answers.push({ status: bytes.readUInt32LE(at + 4), body: bytes.subarray(at + 8, end) });
    at = end;
  }
  return answers;
}

/** Opens, works and closes by `session(messages, expectations)`; a session is one process run. */
function checkAll(session) {
  const [described] = session([describe()], ['description']);
  const offers = parse(described.body.toString());
  const model = new Model(offers);
  const work = (count) => model.requests(count);
  const opened = { message: open(), expect: { status: 0, body: Buffer.alloc(0) }, what: 'open' };
  const run = (steps) => {
    const answers = session(steps.map((it) => it.message));
    steps.forEach((step, i) => compare(step, answers[i]));
  };
  run([opened, ...work(200), ...model.readAll(), ...model.wrongRequests(), ...model.closing()]);
  run([opened, ...model.readAll(), ...work(50), ...model.makeDurable()]);
  run([opened, ...model.readAll(), ...work(20), { message: encode(3, Buffer.alloc(8)), what: 'idle', expect: { status: 0, body: Buffer.alloc(0) } },
    ...model.readAll(), ...model.closing()]);
  run([opened, ...model.readAll()]);
  return offers;
}

function compare(step, answer) {
  if (!answer) throw new Error(`no answer to ${step.what}`);
  const { status, body } = answer;
  const statuses = [step.expect.status].flat();
  const said = status === 0 ? `${body.length} bytes` : JSON.stringify(body.toString());
  if (!statuses.includes(status)) throw new Error(`${step.what}: status ${status} (${said}) where ${statuses.join(' or ')} is due`);
  if (status === 0 && step.accept && !step.accept(body)) throw new Error(`${step.what}: a wrong body of ${body.length} bytes`);
  if (status === 0 && !step.accept && !body.equals(step.expect.body)) {
    throw new Error(`${step.what}: the body ${body.subarray(0, 60).toString('hex')} (${body.length} bytes) where ${step.expect.body.subarray(0, 60).toString('hex')} (${step.expect.body.length} bytes) is due`);
  }
}

const FLAGS = ['batch', 'scan', 'reverse_scan', 'snapshot', 'relaxed', 'sync'];
const POLICIES = ['commit_order', 'reads', 'recovery_survives', 'empty_commit_covers', 'relaxed_survives_kill', 'relaxed_window_ns',
  'max_key_bytes', 'max_value_bytes', 'data_percent', 'usable_percent'];

/** What a description says; an error if it is no description. */
function parse(text) {
  const offers = {};
  for (const line of text.split('\n').filter((it) => it)) {
    const [name, value] = [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)];
    const isKnown = ['abi', 'engine', 'settings', 'order', ...FLAGS, ...POLICIES].includes(name);
    if (!line.includes('=') || !isKnown || name in offers) throw new Error(`describe: the line \`${line}\` is unknown, or there twice`);
    offers[name] = FLAGS.includes(name) ? { true: true, false: false }[value] : value;
  }
  for (const name of ['abi', 'engine', 'settings', 'order', ...FLAGS]) if (offers[name] === undefined) throw new Error(`describe: no \`${name}\``);
  if (offers.abi !== '1' || !['prefix', 'each'].includes(offers.order)) throw new Error(`describe: abi=${offers.abi} order=${offers.order}`);
  return offers;
}

let failed = 0;
for (const file of process.argv.slice(2)) {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'kvsim-check-'));
  const errorFile = path.join(os.tmpdir(), `kvsim-check-${process.pid}.txt`);
  const errors = fs.openSync(errorFile, 'w+');
  const began = process.hrtime.bigint();
  try {
    const bytes = fs.readFileSync(file);
    const module = new WebAssembly.Module(bytes);
    const isCommand = WebAssembly.Module.exports(module).some((it) => it.name === '_start');
    const offers = checkAll((messages) => {
      if (isCommand) return command(module, directory, errors, messages);
      const reactor = new Reactor(module, directory, errors);
      return messages.map((it) => reactor.ask(it));
    });
    const ms = Number((process.hrtime.bigint() - began) / 1000000n);
    const what = FLAGS.filter((it) => offers[it]).join(' ');
    console.log(`ok      ${path.basename(file)}: ${offers.engine} (${offers.settings}); ${what}; ${bytes.length} bytes, ${ms} ms`);
  } catch (error) {
    failed += 1;
    const said = fs.readFileSync(errorFile).toString().trim().split('\n').slice(0, 12).join('\n        ');
    const why = typeof error === 'symbol' ? 'the module ended itself' : error.message ?? error;
    console.log(`FAILED  ${path.basename(file)}: ${why}${said ? `\n        ${said}` : ''}`);
    if (process.env.KVSIM_CHECK_TRACE) console.log(error.stack);
  }
  fs.closeSync(errors);
  fs.rmSync(errorFile);
  if (process.env.KVSIM_CHECK_KEEP) console.log(`        files: ${directory}`);
  else fs.rmSync(directory, { recursive: true });
}
const passed = process.argv.length - 2 - failed;
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed || !passed ? 1 : 0);

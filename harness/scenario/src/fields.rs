//! A line on each field of a scenario, for `kvsim explain`; the book's reference says more, and a test holds both complete.

/// The dotted path of each field, and what it means. `*` as the parent stands for any table.
pub const FIELDS: &[(&str, &str)] = &[
    ("name", "what it is called"),
    ("description", "what it shows"),
    (
        "expect",
        "how it must end: pass, damage reported, or violates PROPERTY",
    ),
    ("profile", "where [device] begins from"),
    // [run]
    ("run", "how often and how each seed is crashed"),
    ("run.seeds", "from the first up to, not including, the last"),
    ("run.crashes", "of each seed, those in recovery included"),
    (
        "run.events_per_crash",
        "mean number of world events from the start of the clients to the crash",
    ),
    (
        "run.crash_clock",
        "uniform, geometric or fixed around that mean",
    ),
    ("run.power_weight", "relative frequency of power cuts"),
    (
        "run.process_weight",
        "relative frequency of killed processes",
    ),
    (
        "run.seek_pending",
        "probability that a crash waits until the device has something to lose",
    ),
    (
        "run.clean_close",
        "probability that a process run is closed instead of crashed",
    ),
    (
        "run.crash_in_recovery",
        "probability that a recovery is itself crashed",
    ),
    (
        "run.crash_in_creation",
        "probability that the creation of a database is crashed while something of it is pending",
    ),
    (
        "run.recovery_crash_depth",
        "how many recoveries or creations in a row may be crashed",
    ),
    (
        "run.recover_twice",
        "probability that a crashed device is recovered twice, side by side",
    ),
    (
        "run.work_before_reading",
        "probability that clients work on after a recovery before anything is read back",
    ),
    (
        "run.on_damage",
        "fresh: go on with a new device; stop: end the seed",
    ),
    (
        "run.open_retries",
        "how often an opening that met a device error is tried again",
    ),
    (
        "run.events_max",
        "world events after which a seed is given up",
    ),
    // [workload]
    ("workload", "what the clients do"),
    (
        "workload.kind",
        "the ready-made workload that the other fields begin from",
    ),
    ("workload.clients", "each with one operation in flight"),
    ("workload.keys", "in the key space"),
    (
        "workload.preload",
        "records written before the clients begin",
    ),
    ("workload.key_bytes", "length of a key"),
    (
        "workload.value_bytes",
        "length of a value: N, { min, max }, [N, N] or [{ bytes, weight }]",
    ),
    ("workload.key_shape", "numbered or mixed"),
    (
        "workload.compressible_percent",
        "share of each value that compresses away",
    ),
    (
        "workload.durable_fraction",
        "of the writes, acknowledged only when durable",
    ),
    (
        "workload.think_time_ns",
        "between an answer and the client's next request",
    ),
    ("workload.popularity", "uniform, zipfian or latest"),
    ("workload.zipf_theta", "skew, from 0 to below 1"),
    ("workload.scan_entries", "entries that a scan asks for"),
    ("workload.scan_bytes_max", "bytes that a scan asks for"),
    (
        "workload.reverse_fraction",
        "of the scans, from the largest key down",
    ),
    (
        "workload.bounded_fraction",
        "of the scans, bounded at both ends",
    ),
    ("workload.batch_writes", "mutations in a batch"),
    (
        "workload.batch_delete_fraction",
        "of a batch's mutations, deletes",
    ),
    (
        "workload.snapshot_reads",
        "how often a snapshot is read again",
    ),
    (
        "workload.edge_cases",
        "of the operations, those before which an edge case is sent",
    ),
    (
        "workload.at_limits",
        "of the operations, those before which a request at a limit is sent",
    ),
    (
        "workload.operations",
        "how often each operation is drawn, relative to the others",
    ),
    ("workload.operations.put", "sets a key"),
    (
        "workload.operations.insert",
        "sets a key never written before",
    ),
    ("workload.operations.delete", "removes a key"),
    ("workload.operations.get", "reads a key"),
    ("workload.operations.scan", "reads a range"),
    ("workload.operations.batch", "writes several keys at once"),
    (
        "workload.operations.read_modify_write",
        "reads a key, then sets it",
    ),
    (
        "workload.operations.snapshot",
        "reads, writes and reads again through a snapshot",
    ),
    (
        "workload.operations.sync",
        "makes all that was accepted durable",
    ),
    // [guest]
    ("guest", "what the guest may use, and what it is told"),
    ("guest.memory_bytes_max", "memory it may grow to"),
    (
        "guest.fuel_per_call",
        "instructions, about, before a call counts as hung",
    ),
    (
        "guest.events_per_answer",
        "world events that a request may wait before the guest counts as busy for ever",
    ),
    (
        "guest.idle_ns_per_answer",
        "virtual nanoseconds that a request may wait with nothing under way before the guest counts as asleep",
    ),
    (
        "guest.cpu_ps_per_fuel",
        "virtual picoseconds that one of them takes",
    ),
    (
        "guest.client_turn",
        "until a client that waited for the disk, then for the processor, is on it",
    ),
    ("guest.options", "passed to any guest as they are"),
    ("guest.options.*", "the guest's own"),
    ("guest.options_for", "passed only to the guest of that name"),
    (
        "guest.options_for.*",
        "the options of the guest of this name",
    ),
    ("guest.options_for.*.*", "the guest's own"),
    (
        "guest.reopen_for",
        "passed only to the guest of that name when it is opened anew, on top",
    ),
    (
        "guest.reopen_for.*",
        "tables of options: each opening after the first takes the next one",
    ),
    ("guest.reopen_for.*.*", "the guest's own"),
    (
        "guest.policies",
        "what the guest is held to, in place of what it states itself",
    ),
    ("guest.policies.*", "a policy of the guest ABI"),
    // [host]
    (
        "host",
        "the machine on which a benchmark is predicted; of no use to a run",
    ),
    (
        "host.processors",
        "that clients and engine share; 0: not measured",
    ),
    (
        "host.client",
        "processor time of a client from its answer to its next request",
    ),
    (
        "host.commit_ns",
        "processor time of a commit beyond the engine's calls",
    ),
    ("host.options", "what the engine is told natively"),
    ("host.options.*", "the engine's own"),
    // [check]
    ("check", "how much is checked after each recovery"),
    (
        "check.scan_keys_max",
        "all is read if there are no more keys than this",
    ),
    (
        "check.reverse_scan_every",
        "so many recoveries, the scan is repeated in reverse; 0 for never",
    ),
    ("check.gets_max", "keys that are also read one by one"),
    (
        "check.page_entries",
        "entries asked for in one scan of the check",
    ),
    (
        "check.page_bytes",
        "bytes asked for in one scan of the check",
    ),
    (
        "check.relaxed_window_ns",
        "relaxed writes acknowledged longer ago than this must survive",
    ),
    ("check.relaxed_slack_ns", "granted on top of that window"),
    // [coverage]
    (
        "coverage",
        "which of the guest's coverage points are to be reached",
    ),
    (
        "coverage.unreachable",
        "coverage points that this scenario cannot reach; of all others --strict wants to see each",
    ),
    // [explore]
    ("explore", "how far `kvsim explore` goes"),
    (
        "explore.operations",
        "requests of the clients in the run that is recorded",
    ),
    ("explore.depth", "crashes in a row, 1 to 3"),
    (
        "explore.subset_writes",
        "subsets that keep or lose at most so many pending writes",
    ),
    (
        "explore.tear_sectors",
        "writes of at most so many sectors are torn in every way; 0 for no tears",
    ),
    (
        "explore.torn_writes",
        "writes that are torn at once, at most; 0 for no tears",
    ),
    (
        "explore.garbage",
        "a torn write may leave garbage in one sector",
    ),
    (
        "explore.unreadable",
        "a torn write may leave one sector that cannot be read",
    ),
    (
        "explore.process_crash",
        "a killed process is a state of its own",
    ),
    ("explore.in_flush", "cuts while a flush is under way"),
    (
        "explore.states_per_point",
        "of a crash point; of more, a sample",
    ),
    (
        "explore.work",
        "requests after a recovery, before the next crash",
    ),
    (
        "explore.deeper_every",
        "above the last depth, the recovery of one in so many states is explored",
    ),
    (
        "explore.again_every",
        "one in so many states is worked on and cut once more; 0 for none",
    ),
    (
        "explore.recovery_errors",
        "read, write, flush: what also fails in a recovery, once",
    ),
    (
        "explore.recovery_errors_max",
        "the first so many of each in a recovery, one at a time",
    ),
    (
        "explore.work_errors",
        "read, write, flush: what fails in the run itself, once in each of further runs",
    ),
    (
        "explore.work_errors_max",
        "the first so many of each in the work, one in each run",
    ),
    (
        "explore.work_errors_drops",
        "subsets that a failed flush drops, at most; of more, the simple ones",
    ),
    ("explore.violations_max", "it ends after so many"),
    (
        "explore.alike_max",
        "of violations of one kind, so many count; the others are met only",
    ),
    // [files]
    (
        "files",
        "the simulated file system, for an engine that uses files; in place of [device] and [faults]",
    ),
    (
        "files.profile",
        "what a crash leaves: a persistence profile by name, by path, or a table of rules",
    ),
    (
        "files.capacity_bytes",
        "space for the data of all files, in bytes; 0 for no limit but that of memory, 1 GiB",
    ),
    ("files.file_bytes_max", "the largest size of a file"),
    ("files.open_files_max", "files that may be open at once"),
    (
        "files.pending_steps_max",
        "when more steps are pending, the oldest are written back",
    ),
    (
        "files.stale_blocks",
        "what an allocated block shows before its data are there: given_up or noise; as the profile says if absent",
    ),
    ("files.call_ns", "what each call takes, beside the device"),
    (
        "files.left_out",
        "syncs that do nothing, and excuse nothing, by the place that makes them",
    ),
    (
        "files.left_out.place",
        "the place in the engine's code, as `kvsim syncs` prints it",
    ),
    (
        "files.left_out.nth",
        "only the n-th sync of that place, from 0; all if absent",
    ),
    ("files.faults", "what goes wrong with files; per call"),
    ("files.faults.sync_error", "a sync fails"),
    ("files.faults.no_space_sync", "a sync finds no space"),
    ("files.faults.no_space_write", "a write finds no space"),
    (
        "files.faults.no_space_allocate",
        "an allocation finds no space",
    ),
    (
        "files.faults.short_read",
        "a read gives fewer bytes than there are",
    ),
    (
        "files.faults.short_write",
        "a write takes fewer bytes than it was given",
    ),
    (
        "files.faults.torn",
        "a power cut tears pages, where the profile allows it",
    ),
    (
        "files.faults.byte_tear",
        "a torn page tears one sector in the middle",
    ),
    (
        "files.faults.bit_rot",
        "a bit of the medium flips; per sync",
    ),
    (
        "files.faults.sync_lie",
        "a sync says that it has worked and does nothing",
    ),
    (
        "files.faults.after_op",
        "errors and lies begin with this call",
    ),
    (
        "files.faults.script",
        "faults at named calls: [{ op, kind }]",
    ),
    (
        "files.timing",
        "of the device below; that of `profile` if nothing is said",
    ),
    // [device]
    ("device", "the simulated device"),
    (
        "device.sector_bytes",
        "512 or 4096: the unit of addressing and of tearing",
    ),
    (
        "device.physical_block_bytes",
        "what it rewrites internally; told to the guest",
    ),
    ("device.capacity_bytes", "at first power on"),
    (
        "device.max_capacity_bytes",
        "how far it can grow; 0 for not at all",
    ),
    (
        "device.cache",
        "volatile, write_through or power_loss_protected",
    ),
    (
        "device.fua",
        "whether single writes can go through a volatile cache",
    ),
    ("device.discard", "whether discard is supported"),
    (
        "device.barrier",
        "whether there is an operation that orders writes and makes nothing durable",
    ),
    (
        "device.flush",
        "durable, or barrier: a flush that only orders",
    ),
    (
        "device.cache_bytes",
        "what a volatile cache holds before the device itself makes the oldest durable; 0 for no limit",
    ),
    (
        "device.atomic_write_bytes",
        "aligned writes up to this are all or nothing; 0 for one sector",
    ),
    (
        "device.atomic_boundary_bytes",
        "that a write must not cross to be atomic; 0 for none",
    ),
    ("device.queue_depth", "operations it works on at once"),
    ("device.timing", "how long things take"),
    ("device.timing.read", "a read, beside its transfer"),
    (
        "device.timing.write",
        "a write into the cache, beside its transfer",
    ),
    (
        "device.timing.write_through",
        "a write through the cache, beside its transfer",
    ),
    ("device.timing.flush", "a flush"),
    ("device.timing.discard", "a discard"),
    ("device.timing.grow", "a growth"),
    ("device.timing.read_bytes_per_second", "0 for no limit"),
    ("device.timing.write_bytes_per_second", "0 for no limit"),
    ("device.timing.reads_per_second", "0 for no limit"),
    ("device.timing.writes_per_second", "0 for no limit"),
    ("device.timing.write_throughs_per_second", "0 for no limit"),
    (
        "device.timing.read_ns_per_kib",
        "latency by size, beside the transfer",
    ),
    (
        "device.timing.write_ns_per_kib",
        "latency by size, beside the transfer",
    ),
    (
        "device.timing.write_through_ns_per_kib",
        "latency by size, beside the transfer",
    ),
    ("device.timing.serial_flush", "one flush at a time"),
    (
        "device.timing.in_order",
        "completions in the order of submission",
    ),
    (
        "device.timing.stall",
        "probability that an operation stalls",
    ),
    ("device.timing.stall_ns", "how long, on top"),
    ("*.min_ns", "the least"),
    ("*.p50_ns", "half are below"),
    ("*.p90_ns", "nine of ten are below"),
    ("*.p99_ns", "all but one in a hundred are below"),
    ("*.p999_ns", "all but one in a thousand are below"),
    ("*.max_ns", "the most"),
    (
        "*.means_ns",
        "of a measured latency, what is drawn from: means by groups",
    ),
    ("*.min", "the smallest"),
    ("*.max", "the largest"),
    // [faults]
    (
        "faults",
        "which liberties the device takes; probabilities are per operation",
    ),
    ("faults.loss", "a power cut may lose what is not durable"),
    (
        "faults.reorder",
        "and keep a later write without an earlier one",
    ),
    (
        "faults.bias",
        "how a power cut chooses what survives: weights",
    ),
    ("faults.bias.none", "nothing that is not durable"),
    ("faults.bias.all", "everything"),
    ("faults.bias.all_but_one", "everything but one write"),
    ("faults.bias.one", "one write alone"),
    ("faults.bias.prefix", "the writes up to some point"),
    ("faults.bias.subset", "each write on the toss of a coin"),
    (
        "faults.torn",
        "a surviving write is torn, where the device allows it",
    ),
    (
        "faults.torn_unreadable",
        "a torn write leaves one sector that cannot be read until it is rewritten",
    ),
    (
        "faults.garbage",
        "a torn write leaves garbage in one sector",
    ),
    (
        "faults.byte_tear",
        "a torn write tears one sector in the middle",
    ),
    ("faults.read_error", "a read fails"),
    ("faults.write_error", "a write fails"),
    ("faults.flush_error", "a flush fails"),
    (
        "faults.persistent",
        "of read and write errors, those that stay",
    ),
    (
        "faults.drop_dirty",
        "of failed flushes, those that drop what they should have flushed",
    ),
    ("faults.no_space", "a write or growth finds no space"),
    (
        "faults.flush_lie",
        "a flush is acknowledged and does nothing",
    ),
    (
        "faults.lost_write",
        "a write is acknowledged and never happens",
    ),
    ("faults.misdirected_write", "a write lands elsewhere"),
    ("faults.misdirected_read", "a read returns another place"),
    (
        "faults.stale_read",
        "a read returns what was there before the last overwrite",
    ),
    ("faults.bit_rot", "a bit of the medium flips; per write"),
    (
        "faults.latent_sector_error",
        "a sector of the medium becomes unreadable; per write",
    ),
    (
        "faults.after_op",
        "errors and lies begin with this operation",
    ),
    (
        "faults.max_fired",
        "errors and lies end after so many; 0 for never",
    ),
    (
        "faults.left_out",
        "number of a flush or write-through that does nothing, and excuses nothing",
    ),
    (
        "faults.script",
        "faults at named operations: [{ op, kind }]",
    ),
    ("faults.script.op", "number of the device operation, from 0"),
    ("faults.script.kind", "what affects it"),
    // [failure]
    ("failure", "what failed, in a saved failing case"),
    ("failure.property", "that does not hold"),
    ("failure.sentence", "what happened"),
    ("failure.blame", "what is missing in the guest, in words"),
    ("failure.trace_hash", "of the seed's run"),
    ("failure.crash", "crashes that the seed had seen"),
    ("failure.profile", "where [device] was made from"),
    ("failure.guest", "the guest's name"),
    ("failure.guest_hash", "the guest's hash"),
    (
        "failure.guest_file",
        "where the guest was; none for the built-in engine",
    ),
    ("failure.kvsim", "the version that saved it"),
    // [case]
    (
        "case",
        "the steps of a failing case, process run by process run: each begins with a power on",
    ),
    (
        "case.process_runs",
        "requests in the order of their clients' turns, then the crash",
    ),
    ("case.process_runs.requests", "CLIENT REQUEST"),
    ("case.faults", "faults at named operations: [{ op, kind }]"),
    ("case.faults.op", "number of the device operation, from 0"),
    ("case.faults.kind", "what affects it"),
    (
        "case.process_runs.close_after_event",
        "closed cleanly from then on; none: not closed",
    ),
    (
        "case.process_runs.read_after_requests",
        "sent before the recovery is read back; none: it is read back first",
    ),
    (
        "case.process_runs.crash",
        "the cut; none: the process run goes on to its end",
    ),
    ("case.process_runs.crash.after_event", "of this process run"),
    ("case.process_runs.crash.kind", "power or process"),
    (
        "case.process_runs.crash.persisted",
        "of what was pending, in this order; the rest is lost",
    ),
];

//! A small device that tests drive one operation at a time.
use kvsim_simdisk::{
    Cache, Completion, CrashKind, CrashReport, CrashState, Device, DeviceConfig, DiskError,
    FaultConfig, FaultKind, Image, LatencyConfig, Op, OpId, TimingConfig,
};

pub(crate) const SECTOR: u64 = 512;
pub(crate) const SECTORS: u64 = 128;

/// 64 KiB in sectors of 512 bytes, everything takes 1000 ns.
pub(crate) fn config() -> DeviceConfig {
    let constant = LatencyConfig::fixed(1000);
    DeviceConfig {
        capacity_bytes: SECTORS * SECTOR,
        max_capacity_bytes: 2 * SECTORS * SECTOR,
        fua: true,
        timing: TimingConfig {
            read: constant,
            write: constant,
            write_through: constant,
            flush: constant,
            discard: constant,
            grow: constant,
            read_bytes_per_second: 0,
            write_bytes_per_second: 0,
            ..TimingConfig::default()
        },
        ..DeviceConfig::default()
    }
}

/// The honest device.
pub(crate) fn honest() -> FaultConfig {
    FaultConfig::default()
}

/// How an operation ended.
pub(crate) type Outcome = Result<Option<Vec<u8>>, DiskError>;

/// A device under test and its clock.
pub(crate) struct Rig {
    pub(crate) device: Device,
    pub(crate) now: u64,
}

impl Rig {
    pub(crate) fn new(config: &DeviceConfig, faults: &FaultConfig, seed: u64) -> Rig {
        let device = Device::new(config, faults, seed).expect("a valid configuration");
        Rig { device, now: 0 }
    }

    pub(crate) fn with_faults(faults: &FaultConfig) -> Rig {
        Rig::new(&config(), faults, 1)
    }

    pub(crate) fn with_cache(cache: Cache) -> Rig {
        Rig::new(&DeviceConfig { cache, ..config() }, &honest(), 1)
    }

    pub(crate) fn submit(&mut self, op: Op) -> OpId {
        self.device
            .submit(self.now, 0, op)
            .expect("a proper operation")
    }

    /// Submits a write of `count` sectors of `fill`.
    pub(crate) fn submit_write(&mut self, sector: u64, count: u64, fill: u8) -> OpId {
        self.submit(write(sector, count, fill, false))
    }

    /// Completes the earliest operation.
    pub(crate) fn complete(&mut self) -> Completion {
        let completion = self.device.complete_next().expect("something in flight");
        self.now = self.now.max(completion.at);
        completion
    }

    /// Completes everything in flight; the results by order of completion.
    pub(crate) fn drain(&mut self) -> Vec<(OpId, Outcome)> {
        let mut all = Vec::new();
        while self.device.in_flight() > 0 {
            let completion = self.complete();
            let result = completion.result;
            all.push((completion.id, result.map(|read| read.map(|it| it.to_vec()))));
        }
        all
    }

    /// Does one operation from submission to completion.
    pub(crate) fn run(&mut self, op: Op) -> Outcome {
        let id = self.submit(op);
        let all = self.drain();
        all.into_iter()
            .find(|(other, _)| *other == id)
            .expect("it completed")
            .1
    }

    pub(crate) fn write(&mut self, sector: u64, count: u64, fill: u8) {
        self.run(write(sector, count, fill, false))
            .expect("a write");
    }

    pub(crate) fn flush(&mut self) {
        self.run(Op::Flush).expect("a flush");
    }

    /// Reads one sector and says what fills it.
    pub(crate) fn read(&mut self, sector: u64) -> Result<u8, DiskError> {
        let bytes = self.run(read(sector, 1))?.expect("a read has bytes");
        Ok(uniform(&bytes))
    }

    /// What fills each of the first sectors, after a read of each.
    pub(crate) fn reads<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|sector| self.read(sector as u64).expect("a read"))
    }

    pub(crate) fn cut(&mut self, state: &CrashState) -> CrashReport {
        self.device
            .crash(self.now, CrashKind::Power, state)
            .expect("a legal state")
    }

    /// A power cut that loses all it can.
    pub(crate) fn cut_all(&mut self) -> CrashReport {
        self.cut(&CrashState::default())
    }

    /// A kill of the process.
    pub(crate) fn kill(&mut self) -> CrashReport {
        let state = CrashState::default();
        let report = self.device.crash(self.now, CrashKind::Process, &state);
        report.expect("a kill may come at any time")
    }

    pub(crate) fn fired(&self, kind: FaultKind) -> u64 {
        self.device.counts().get(kind).fired
    }

    pub(crate) fn possible(&self, kind: FaultKind) -> u64 {
        self.device.counts().get(kind).possible
    }
}

pub(crate) fn write(sector: u64, count: u64, fill: u8, through: bool) -> Op {
    let data = vec![fill; usize::try_from(count * SECTOR).unwrap()].into();
    Op::Write {
        offset: sector * SECTOR,
        data,
        through,
    }
}

pub(crate) fn read(sector: u64, count: u64) -> Op {
    let len_bytes = u32::try_from(count * SECTOR).unwrap();
    Op::Read {
        offset: sector * SECTOR,
        len_bytes,
    }
}

pub(crate) fn discard(sector: u64, count: u64) -> Op {
    let len_bytes = u32::try_from(count * SECTOR).unwrap();
    Op::Discard {
        offset: sector * SECTOR,
        len_bytes,
    }
}

/// The one byte that fills a sector.
pub(crate) fn uniform(bytes: &[u8]) -> u8 {
    assert!(
        bytes.iter().all(|&byte| byte == bytes[0]),
        "a sector of mixed bytes"
    );
    bytes[0]
}

/// What fills each of the first sectors of an image.
pub(crate) fn fills<const N: usize>(image: &Image) -> [u8; N] {
    std::array::from_fn(|sector| {
        let mut bytes = [0; 512];
        image.read(sector as u64 * SECTOR, &mut bytes);
        uniform(&bytes)
    })
}

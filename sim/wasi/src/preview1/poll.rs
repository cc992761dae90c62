//! `poll_oneoff`: sleeping moves virtual time, descriptors are always ready.

use super::abi::Code;
use super::answer::Answer;
use super::memory::View;
use super::streams;
use crate::clock::ClockId;

const SUBSCRIPTION_BYTES: i32 = 48;
const EVENT_BYTES: usize = 32;
/// More subscriptions at once are refused.
const SUBSCRIPTIONS_MAX: i32 = 4_096;

const CLOCK: u8 = 0;
const FD_READ: u8 = 1;
const FD_WRITE: u8 = 2;
/// The time of a subscription is a time of the clock, and not a duration.
const ABSOLUTE: u16 = 1;

/// What is waited for.
#[derive(Debug, Clone, Copy)]
enum Wait {
    Clock {
        clock: ClockId,
        time: u64,
        is_absolute: bool,
    },
    Read(i32),
    Write(i32),
}

#[derive(Debug, Clone, Copy)]
struct Subscription {
    userdata: u64,
    kind: u8,
    wait: Result<Wait, Code>,
}

fn subscriptions(view: &View<'_>, address: i32, count: i32) -> Result<Vec<Subscription>, Code> {
    if !(1..=SUBSCRIPTIONS_MAX).contains(&count) {
        return Err(Code::INVALID);
    }
    let bytes = view.part(address, count * SUBSCRIPTION_BYTES)?;
    let all = bytes.chunks_exact(SUBSCRIPTION_BYTES as usize).map(|one| {
        let u64_at =
            |at: usize| u64::from_le_bytes(one[at..at + 8].try_into().expect("eight bytes"));
        let i32_at =
            |at: usize| i32::from_le_bytes(one[at..at + 4].try_into().expect("four bytes"));
        let kind = one[8];
        let wait = match kind {
            CLOCK => ClockId::of(i32_at(16))
                .ok_or(Code::INVALID)
                .map(|clock| Wait::Clock {
                    clock,
                    time: u64_at(24),
                    is_absolute: u16::from_le_bytes([one[40], one[41]]) & ABSOLUTE != 0,
                }),
            FD_READ => Ok(Wait::Read(i32_at(16))),
            FD_WRITE => Ok(Wait::Write(i32_at(16))),
            _ => Err(Code::INVALID),
        };
        Subscription {
            userdata: u64_at(0),
            kind,
            wait,
        }
    });
    Ok(all.collect())
}

/// Whether nothing but standard input is waited for, and it holds no message: then the guest has nothing to do until one comes.
pub(super) fn waits_for_input_alone(view: &View<'_>, address: i32, count: i32) -> bool {
    let Ok(all) = subscriptions(view, address, count) else {
        return false;
    };
    let waits = |it: &Subscription| matches!(it.wait, Ok(Wait::Read(fd)) if streams::waits_for_input(view.host, fd));
    all.iter().all(waits)
}

pub(super) fn poll_oneoff(
    view: &mut View<'_>,
    address: i32,
    events: i32,
    count: i32,
    result: i32,
) -> Answer {
    view.check(result, 4)?;
    let all = subscriptions(view, address, count)?;
    let room = i32::try_from(all.len() * EVENT_BYTES).map_err(|_| Code::INVALID)?;
    view.check(events, room)?;
    view.host.take_steps();
    let left: Vec<Option<u64>> = all.iter().map(|it| left_ns(view, it)).collect();
    let ready: Vec<Option<(Code, u64)>> = all.iter().map(|it| answer(view, it)).collect();
    // With nothing but clocks to wait for, the earliest of them ends the sleep.
    let earliest = left.iter().flatten().min().copied().unwrap_or(0);
    let slept = if ready.iter().all(Option::is_none) {
        earliest
    } else {
        0
    };
    view.host.clock.sleep(slept);
    let rings = |left: Option<u64>| {
        left.filter(|&left| left <= slept)
            .map(|_| (Code::SUCCESS, 0))
    };
    let answers = ready
        .into_iter()
        .zip(left)
        .map(|(ready, left)| ready.or(rings(left)));
    let mut bytes = Vec::with_capacity(all.len() * EVENT_BYTES);
    let mut told = 0;
    for (subscription, answer) in all.iter().zip(answers) {
        let Some((code, nbytes)) = answer else {
            continue;
        };
        told += 1;
        let mut event = [0; EVENT_BYTES];
        event[..8].copy_from_slice(&subscription.userdata.to_le_bytes());
        let code = u16::try_from(code.0).unwrap_or(0);
        event[8..10].copy_from_slice(&code.to_le_bytes());
        event[10] = subscription.kind;
        event[16..24].copy_from_slice(&nbytes.to_le_bytes());
        bytes.extend_from_slice(&event);
    }
    view.write(events, &bytes)?;
    view.write_u32(result, told)
}

/// How long a subscription of a clock has to wait still.
fn left_ns(view: &mut View<'_>, subscription: &Subscription) -> Option<u64> {
    let Ok(Wait::Clock {
        clock,
        time,
        is_absolute,
    }) = subscription.wait
    else {
        return None;
    };
    Some(if is_absolute {
        time.saturating_sub(view.host.clock.read(clock))
    } else {
        time
    })
}

/// The event of a subscription, if it is there.
fn answer(view: &View<'_>, subscription: &Subscription) -> Option<(Code, u64)> {
    let wait = match subscription.wait {
        Ok(wait) => wait,
        Err(code) => return Some((code, 0)),
    };
    match wait {
        Wait::Clock { .. } => None,
        Wait::Read(fd) | Wait::Write(fd) => Some(match view.host.table.get(fd) {
            Err(code) => (code, 0),
            Ok(_) if streams::waits_for_input(view.host, fd) && matches!(wait, Wait::Read(_)) => {
                return None;
            }
            Ok(_) => (Code::SUCCESS, 1),
        }),
    }
}

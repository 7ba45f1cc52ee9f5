//! Random ids for segments and sessions.

use std::io;
use std::sync::Mutex;

/// Where ids come from.
#[derive(Debug, Default)]
pub(crate) enum Ids {
    /// The system's random numbers. Not the process's: a forked child must not draw the ids its parent draws.
    #[default]
    System,
    /// A fixed sequence, for tests that compare bytes.
    #[cfg_attr(not(feature = "testing"), allow(dead_code, reason = "made by the testing feature only"))]
    Sequence(Mutex<u64>),
}

impl Ids {
    /// A sequence that is the same for the same seed.
    #[cfg(feature = "testing")]
    pub(crate) fn sequence(seed: u64) -> Self {
        Ids::Sequence(Mutex::new(seed))
    }

    /// The next id; never 0.
    pub(crate) fn next(&self) -> io::Result<u64> {
        loop {
            let id = match self {
                Ids::System => system_random()?,
                Ids::Sequence(state) => {
                    let mut state = state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    split_mix(&mut state)
                }
            };
            if id != 0 {
                return Ok(id);
            }
        }
    }
}

fn system_random() -> io::Result<u64> {
    let mut bytes = [0_u8; 8];
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        let got = rustix::io::retry_on_intr(|| {
            rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())
        })?;
        if got != bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// The `SplitMix64` generator: a permutation of a counter.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

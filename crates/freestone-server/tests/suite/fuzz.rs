//! The fuzz targets on random bytes from seeds: no bytes of a client make the server panic.

use freestone_server::fuzz;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const ROUNDS: usize = 20_000;

/// Random bytes that sometimes resemble a protocol: kinds, small lengths, digits and zeros.
fn bytes(random: &mut StdRng) -> Vec<u8> {
    let length = random.random_range(0..64);
    let byte = |random: &mut StdRng| match random.random_range(0..6) {
        0 => b"QPBDECHSXdcfp"[random.random_range(0..13)],
        1 => 0,
        2 => random.random_range(0..24),
        3 => b"0123456789.-+eE\\xN\t\n"[random.random_range(0..20)],
        _ => random.random_range(0..=255),
    };
    (0..length).map(|_| byte(random)).collect()
}

#[test]
fn no_bytes_make_a_decoder_panic() {
    let seed = std::env::var("FREESTONE_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let rounds = std::env::var("FREESTONE_TEST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS);
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..rounds {
        let bytes = bytes(&mut random);
        fuzz::postgres_startup(&bytes);
        fuzz::postgres_parameter(&bytes);
        fuzz::postgres_copy(&bytes);
    }
    // Creating a runtime per round would take long.
    for _ in 0..rounds / 20 {
        fuzz::postgres_frames(&bytes(&mut random));
    }
}

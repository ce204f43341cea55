//! Run-time choice of the vector width. This is the only module with `unsafe` code.
//!
//! [`dispatch!`] compiles one generic `#[inline(always)]` kernel three times (baseline, AVX2, AVX-512) and calls the
//! widest version that this processor supports. Other architectures have only the baseline (which includes NEON on
//! aarch64).

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Baseline,
    Avx2,
    Avx512,
}

/// The vector instructions of this processor, detected once.
#[inline]
pub(crate) fn level() -> Level {
    static LEVEL: std::sync::OnceLock<Level> = std::sync::OnceLock::new();
    *LEVEL.get_or_init(detect)
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Level {
    use std::is_x86_feature_detected as has;
    if has!("avx512f") && has!("avx512bw") && has!("avx512vl") && has!("avx512dq") && has!("bmi2") {
        Level::Avx512
    } else if has!("avx2") && has!("bmi1") && has!("bmi2") {
        Level::Avx2
    } else {
        Level::Baseline
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Level {
    Level::Baseline
}

/// Declares a function that runs `$kernel` compiled for the widest vectors of this processor.
macro_rules! dispatch {
    ($(#[$meta:meta])* $vis:vis fn $name:ident $(<$($g:ident : $bound:path),+>)? ($($arg:ident : $ty:ty),* $(,)?)
        $(-> $ret:ty)? = $kernel:ident) => {
        $(#[$meta])*
        #[inline]
        #[allow(unsafe_code)]
        $vis fn $name $(<$($g: $bound),+>)? ($($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,bmi1,bmi2")]
                fn wide $(<$($g: $bound),+>)? ($($arg: $ty),*) $(-> $ret)? {
                    $kernel$(::<$($g),+>)?($($arg),*)
                }
                #[target_feature(enable = "avx2,bmi1,bmi2")]
                fn medium $(<$($g: $bound),+>)? ($($arg: $ty),*) $(-> $ret)? {
                    $kernel$(::<$($g),+>)?($($arg),*)
                }
                match $crate::simd::level() {
                    // SAFETY: `level` reports Avx512 only after detecting every feature that `wide` enables.
                    $crate::simd::Level::Avx512 => return unsafe { wide$(::<$($g),+>)?($($arg),*) },
                    // SAFETY: `level` reports Avx2 only after detecting every feature that `medium` enables.
                    $crate::simd::Level::Avx2 => return unsafe { medium$(::<$($g),+>)?($($arg),*) },
                    $crate::simd::Level::Baseline => {}
                }
            }
            #[allow(unreachable_code)]
            $kernel$(::<$($g),+>)?($($arg),*)
        }
    };
}
pub(crate) use dispatch;

//! Sums and counts by group, for batches of a few groups.
//!
//! A sum that was just stored takes long to load again, so adding row by row waits for memory. If a batch has few groups,
//! the values of each are added up by themselves, several rows at a time; the others are skipped by a mask. Otherwise each
//! group has several sums side by side.

use std::ops::AddAssign;

use crate::simd::dispatch;

/// Groups with numbers below this can be told by the bits of one word.
const NUMBERED: usize = u64::BITS as usize;
/// The most groups of a batch for which its rows are looked at once per group.
const FEW: u32 = 8;
/// The fewest rows for which it is worth looking which groups they have.
const ROWS_MIN: usize = 32;
/// The sums of one group side by side.
const LANES: usize = 4;

/// Adds each value to the sum of its row's group. Sums wrap around. Rows of a group behind the last one are left out.
///
/// # Panics
/// A greater group has no sum either, or the number of values is not that of the groups.
pub fn add_by_group(values: &[i64], groups: &[u32], sums: &mut [i64]) {
    assert_eq!(values.len(), groups.len());
    match few_groups(groups, sums.len()) {
        Some(present) => each_bit(present, |group| {
            let more = sum_of(values, groups, group);
            let sum = &mut sums[group as usize];
            *sum = sum.wrapping_add(more);
        }),
        None => add_in_lanes(values, groups, sums),
    }
}

/// Adds the number of rows of each group to its count. Rows of a group behind the last one are left out.
///
/// # Panics
/// A greater group has no count either.
pub fn count_by_group<T: From<u32> + AddAssign>(groups: &[u32], counts: &mut [T]) {
    match few_groups(groups, counts.len()) {
        Some(present) => each_bit(present, |group| counts[group as usize] += count_of(groups, group).into()),
        None => groups.iter().for_each(|group| match counts.get_mut(*group as usize) {
            Some(count) => *count += 1.into(),
            None => assert!(*group as usize == counts.len(), "group {group} of {}", counts.len()),
        }),
    }
}

/// The groups of some rows as bits, if they are few.
fn few_groups(groups: &[u32], total: usize) -> Option<u64> {
    if total >= NUMBERED || groups.len() < ROWS_MIN {
        return None;
    }
    let (present, greatest) = present_groups(groups);
    assert!(greatest as usize <= total, "group {greatest} of {total}");
    let present = present & !(1 << total);
    (present.count_ones() <= FEW).then_some(present)
}

fn each_bit(mut bits: u64, mut f: impl FnMut(u32)) {
    while bits != 0 {
        f(bits.trailing_zeros());
        bits &= bits - 1;
    }
}

fn add_in_lanes(values: &[i64], groups: &[u32], sums: &mut [i64]) {
    let mut lanes = vec![0i64; (sums.len() + 1) * LANES];
    let (by_lanes, last) = values.as_chunks::<LANES>();
    let (groups_by_lanes, last_groups) = groups.as_chunks::<LANES>();
    let mut add = |lane: usize, group: u32, value: i64| {
        let sum = &mut lanes[group as usize * LANES + lane];
        *sum = sum.wrapping_add(value);
    };
    for (values, groups) in by_lanes.iter().zip(groups_by_lanes) {
        for lane in 0..LANES {
            add(lane, groups[lane], values[lane]);
        }
    }
    last.iter().zip(last_groups).for_each(|(value, group)| add(0, *group, *value));
    for (sum, lanes) in sums.iter_mut().zip(lanes.as_chunks::<LANES>().0) {
        *sum = lanes.iter().fold(*sum, |sum, more| sum.wrapping_add(*more));
    }
}

dispatch! {
    /// The groups below [`NUMBERED`] that occur, and the greatest of all.
    fn present_groups(groups: &[u32]) -> (u64, u32) = present_kernel
}

#[inline(always)]
fn present_kernel(groups: &[u32]) -> (u64, u32) {
    groups.iter().fold((0, 0), |(present, greatest), group| (present | 1 << (group % u64::BITS), greatest.max(*group)))
}

dispatch! {
    fn sum_of(values: &[i64], groups: &[u32], wanted: u32) -> i64 = sum_kernel
}

#[inline(always)]
fn sum_kernel(values: &[i64], groups: &[u32], wanted: u32) -> i64 {
    let own = values.iter().zip(groups).map(|(value, group)| if *group == wanted { *value } else { 0 });
    own.fold(0, |sum: i64, value| sum.wrapping_add(value))
}

dispatch! {
    fn count_of(groups: &[u32], wanted: u32) -> u32 = count_kernel
}

#[inline(always)]
fn count_kernel(groups: &[u32], wanted: u32) -> u32 {
    groups.iter().fold(0, |count: u32, group| count.wrapping_add(u32::from(*group == wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_counts_are_those_of_a_loop() {
        for total in [1usize, 3, 8, 9, 64, 65, 600] {
            for rows in [0usize, 1, 5, 31, 32, 100, 2049] {
                for different in [1, 2, 7, 8, 9, total, total + 1] {
                    let groups: Vec<u32> = (0..rows).map(|row| (row * 7 % different.min(total + 1)) as u32).collect();
                    let values: Vec<i64> = (0..rows).map(|row| (row as i64 - 50).wrapping_mul(i64::MAX / 3)).collect();
                    let (mut sums, mut counts) = (vec![5i64; total], vec![2u64; total]);
                    let (mut expected, mut rows_of) = (sums.clone(), counts.clone());
                    let rows_left = values.iter().zip(&groups).filter(|(_, group)| (**group as usize) < total);
                    for (value, group) in rows_left {
                        expected[*group as usize] = expected[*group as usize].wrapping_add(*value);
                        rows_of[*group as usize] += 1;
                    }
                    add_by_group(&values, &groups, &mut sums);
                    count_by_group(&groups, &mut counts);
                    assert_eq!((sums, counts), (expected, rows_of), "{rows} rows of {different} groups of {total}");
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "group 64 of 63")]
    fn a_group_without_a_sum_is_refused() {
        add_by_group(&[1; 40], &[64; 40], &mut [0; 63]);
    }
}

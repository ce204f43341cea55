//! Partitions of a set of columns: all of them, and the coarsest one that no query divides.

/// Calls `visit` with every partition of `0..n`, given as the block number of each element: restricted growth strings,
/// in which a new block's number is one more than the largest before it. Their number is Bell(n): 1, 1, 2, 5, 15, 52,
/// 203, 877, 4140 for n = 0 to 8.
pub fn each_partition(n: usize, visit: &mut dyn FnMut(&[usize])) {
    fn step(at: usize, blocks: usize, numbers: &mut [usize], visit: &mut dyn FnMut(&[usize])) {
        if at == numbers.len() {
            return visit(numbers);
        }
        for block in 0..=blocks {
            numbers[at] = block;
            step(at + 1, blocks.max(block + 1), numbers, visit);
        }
    }
    step(0, 0, &mut vec![0; n], visit);
}

/// The blocks of a partition given by block numbers, each with its elements of `items`.
pub fn blocks(numbers: &[usize], items: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let count = numbers.iter().max().map_or(0, |m| m + 1);
    let mut blocks = vec![vec![]; count];
    for (item, &block) in items.iter().zip(numbers) {
        blocks[block].extend(item);
    }
    blocks
}

/// The primary partitions of HYRISE's layouter: columns that every one of `sets` contains together or not at all. The
/// columns in no set are one atom, the last.
pub fn atoms<'a>(columns: usize, sets: impl IntoIterator<Item = &'a [usize]>) -> Vec<Vec<usize>> {
    let mut signatures: Vec<Vec<usize>> = vec![vec![]; columns];
    for (number, set) in sets.into_iter().enumerate() {
        for &column in set {
            signatures[column].push(number);
        }
    }
    let mut atoms: Vec<(Vec<usize>, Vec<usize>)> = vec![];
    for (column, signature) in signatures.into_iter().enumerate() {
        match atoms.iter_mut().find(|(s, _)| *s == signature) {
            Some((_, atom)) => atom.push(column),
            None => atoms.push((signature, vec![column])),
        }
    }
    // The sort is stable: atoms with queries stay in the order of their first columns.
    atoms.sort_by_key(|(signature, _)| signature.is_empty());
    atoms.into_iter().map(|(_, atom)| atom).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn there_are_as_many_partitions_as_bell_says() {
        for (n, bell) in [1, 1, 2, 5, 15, 52, 203, 877, 4140].into_iter().enumerate() {
            let mut seen = std::collections::HashSet::new();
            each_partition(n, &mut |numbers| assert!(seen.insert(numbers.to_vec())));
            assert_eq!(seen.len(), bell, "n = {n}");
        }
    }

    #[test]
    fn atoms_are_what_queries_do_not_cut() {
        let found = atoms(6, [&[0, 1, 2][..], &[2, 3], &[0, 1]]);
        assert_eq!(found, [vec![0, 1], vec![2], vec![3], vec![4, 5]]);
        assert_eq!(atoms(2, []), [vec![0, 1]]);
    }

    proptest! {
        #[test]
        fn atoms_hold_each_column_once(
            columns in 1usize..20,
            sets in prop::collection::vec(prop::collection::btree_set(0usize..20, 0..8), 0..8),
        ) {
            let sets: Vec<Vec<usize>> = sets.iter().map(|s| s.iter().copied().filter(|c| *c < columns).collect()).collect();
            let found = atoms(columns, sets.iter().map(Vec::as_slice));
            let mut all: Vec<usize> = found.iter().flatten().copied().collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..columns).collect::<Vec<_>>());
            for (set, atom) in sets.iter().flat_map(|s| found.iter().map(move |a| (s, a))) {
                let inside = atom.iter().filter(|c| set.contains(c)).count();
                prop_assert!(inside == 0 || inside == atom.len());
            }
        }
    }
}

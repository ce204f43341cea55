//! The figures of Grund et al. 2010, sections 3.2 and 3.4, as printed.

/// A row of Table 2: name, virtual machines, users of each, mean response time in milliseconds, queries per second.
pub const TABLE_2: [(&str, usize, usize, f64, f64); 9] = [
    ("1 VM normal", 1, 2, 811.0, 2.46),
    ("1 VM high", 1, 3, 1170.0, 2.57),
    ("1 VM overload", 1, 4, 1560.0, 2.56),
    ("2 VMs normal", 2, 2, 917.0, 4.36),
    ("2 VMs normal + 1 VM burn", 2, 2, 909.0, 4.4),
    ("2 VMs normal + 2 VMs burn", 2, 2, 916.0, 4.37),
    ("3 VMs normal", 3, 2, 1067.0, 5.57),
    ("4 VMs normal", 4, 2, 1298.0, 6.16),
    ("4 VMs overload", 4, 4, 2628.0, 6.09),
];

/// Table 1, of an Intel Xeon E5450: what, physical, virtual.
pub const TABLE_1: [(&str, &str, &str); 7] = [
    ("L1 size", "32 KB", "32 KB"),
    ("L1 miss latency", "10 cycles", "10 cycles"),
    ("L1 replace time", "12 cycles", "12 cycles"),
    ("L2 size", "6 MB", "6 MB"),
    ("L2 miss latency", "197 cycles", "196 cycles"),
    ("L2 replace time", "334 cycles", "333 cycles"),
    ("TLB miss latency", "hidden", "23 cycles"),
];

/// What virtualization costs of the throughput with 1 to 12 users (3.4.2, Figure 4), in percent.
pub const OVERHEAD_PERCENT: f64 = 7.0;
/// The share of processor time in the kernel: physical, virtual, and in the hypervisor (3.4.2).
pub const KERNEL_PERCENT: [f64; 3] = [5.6, 6.2, 3.5];
/// The most by which the response time grew on an Intel Xeon X5650 from one to four machines (3.4.3, Figure 5).
pub const X5650_GROWTH: f64 = 1.06;
/// Bytes per second that the bus of the E5450 carries, and that one machine with two users needs (3.4.3).
pub const BUS: [f64; 2] = [8e9, 2e9];
/// How much faster other allocators were (3.3.2, Figure 3), in percent.
pub const ALLOCATOR_PERCENT: f64 = 10.0;

/// The growth of the response time from one machine to `tenants` on the E5450 (Figure 5).
pub fn growth(tenants: usize) -> Option<f64> {
    let normal = |count: usize| TABLE_2.iter().find(|row| row.1 == count && row.0.ends_with("normal"));
    Some(normal(tenants)?.3 / normal(1)?.3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_that_of_the_text() {
        assert_eq!(growth(1), Some(1.0));
        assert!((growth(4).expect("four") - 1.6).abs() < 0.01);
        assert_eq!(growth(5), None);
    }
}

use proptest::prelude::*;

use arrow::datatypes::DataType;

use super::arena::Budget;
use super::ring::SLOTS;
use super::*;
use crate::batch::{Batch, Column, StoredColumn, StoredPiece};

const CHUNK_BYTES: usize = 5000;

/// Both ends, and the socket that tells the server when the client has disconnected.
fn pair_with(arena: Option<Arc<Arena>>) -> (ServerMemory, Arc<ClientMemory>, UnixStream) {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let client = std::thread::spawn(|| ClientMemory::take_over(theirs, CHUNK_BYTES).unwrap());
    let server = ServerMemory::hand_over(CHUNK_BYTES, arena, &mut ours).unwrap();
    ours.write_all(&[1]).unwrap();
    (server, Arc::new(client.join().unwrap()), ours)
}

fn arena(units: usize) -> Arc<Arena> {
    Arena::create(Budget::new(units * UNIT_BYTES)).unwrap()
}

fn pair(units: usize) -> (ServerMemory, Arc<ClientMemory>, UnixStream) {
    pair_with(Some(arena(units)))
}

/// A chunk of `bytes` bytes of a value.
fn place(server: &ServerMemory, bytes: usize, value: u8) -> Option<PlacedChunk> {
    let mut region = server.region(bytes)?;
    region.write(0, &vec![value; bytes]);
    Some(region.fill(bytes, None).send())
}

/// A page, and the origin of a chunk of three of its rows.
struct Page(Arc<Vec<u8>>);

impl Page {
    fn new() -> Self {
        Self(Arc::new(vec![0; 24]))
    }

    fn origin(&self) -> Origin {
        let piece = StoredPiece { owner: self.0.clone(), range: 0..24, skip: 0, rows: 3 };
        let column = StoredColumn { data_type: DataType::Int64, shared: None, pieces: vec![piece] };
        let batch = Batch::new(3, vec![Column::Stored(column)]).unwrap();
        Origin::of(&batch, &(0..3), 0, [CHUNK_BYTES; 2]).unwrap()
    }

    /// A chunk of `bytes` bytes of a value, which is cached.
    fn place(&self, server: &ServerMemory, bytes: usize, value: u8) -> Option<PlacedChunk> {
        let mut region = server.region(bytes)?;
        region.write(0, &vec![value; bytes]);
        Some(region.fill(bytes, Some(self.origin())).send())
    }

    fn find(&self, server: &ServerMemory) -> Option<PlacedChunk> {
        Some(server.find(&self.origin())?.send())
    }
}

#[test]
fn chunks_pass_and_full_rings_are_not_overwritten() {
    let (server, client, _socket) = pair_with(None);
    assert!(!server.has_arena());
    let ring = &server.peer.ring;
    let mut out = vec![];
    for round in 0..3 * SLOTS as u8 {
        let mapped = ring.put(&[round; CHUNK_BYTES], false).unwrap();
        out.clear();
        client.take(&mapped, &mut out).unwrap();
        assert_eq!(out, [round; CHUNK_BYTES]);
        assert!(client.take(&mapped, &mut out).is_err(), "the slot is free");
    }
    assert!(ring.put(&[0; 8193], false).is_none());
    assert!((0..SLOTS).all(|_| ring.put(b"x", true).is_some()));
    assert!(ring.put(b"x", false).is_none());
}

#[test]
fn hostile_slots_and_files_are_refused() {
    let (server, client, _socket) = pair_with(None);
    let good = server.peer.ring.put(b"chunk", false).unwrap();
    let mut out = vec![];
    for wrong in [
        MappedChunk { slot: SLOTS as u32, ..good.clone() },
        MappedChunk { slot: u32::MAX, ..good.clone() },
        MappedChunk { length: 8193, ..good.clone() },
        MappedChunk { checksum: 1, ..good.clone() },
    ] {
        assert!(client.take(&wrong, &mut out).is_err(), "{wrong:?}");
    }
    let file = tempfile::tempfile().unwrap();
    file.set_len(4096 * 3).unwrap();
    assert!(Ring::open(file, 1, 8192, 0).is_err(), "a file that can shrink");
    let file = || client.ring.file.try_clone().unwrap();
    assert!(Ring::open(file(), SLOTS, 12288, 0).is_err());
    assert!(Ring::open(file(), SLOTS, 8192, 1).is_err(), "no room for the marks");
    assert!(Ring::open(file(), SLOTS, 8192, usize::MAX).is_err());
}

#[test]
fn placed_chunks_stay_until_nobody_has_a_slice_of_them() {
    let (server, client, _socket) = pair(4);
    let chunk = place(&server, UNIT_BYTES + 1, 7).unwrap();
    assert_eq!((chunk.unit, chunk.length as usize), (0, UNIT_BYTES + 1));
    let slice = client.placed(&chunk).unwrap().slice_with_length(UNIT_BYTES, 1);
    let next = place(&server, UNIT_BYTES, 8).unwrap();
    assert_eq!(next.unit, 2, "the first two units are in use");
    assert_eq!(slice.as_slice(), [7]);
    drop(slice);
    let again = client.placed(&place(&server, 2 * UNIT_BYTES, 9).unwrap()).unwrap();
    assert_eq!(again.as_ptr() as usize, client.arena.as_ref().unwrap().start() as usize);
    assert!(again.iter().all(|byte| *byte == 9));
}

#[test]
fn regions_that_are_not_sent_and_chunks_that_are_not_looked_at_come_back() {
    let (server, client, _socket) = pair(2);
    drop(server.region(2 * UNIT_BYTES).unwrap());
    let region = server.region(2 * UNIT_BYTES).unwrap();
    assert!(server.region(1).is_none(), "all is taken");
    let chunk = region.fill(100, None).send();
    assert!(server.region(1).is_none(), "the client has not heard of it yet");
    drop(client.placed(&chunk).unwrap());
    assert!(server.region(1).is_some());
}

#[test]
fn hostile_places_are_refused() {
    let (server, client, _socket) = pair(4);
    let good = place(&server, UNIT_BYTES, 1).unwrap();
    let placed = |unit: u32, length: u32| client.placed(&PlacedChunk { unit, length });
    for (unit, length) in [(1, 1), (3, 1), (4, 0), (u32::MAX, u32::MAX), (0, 4 * UNIT_BYTES as u32 + 1)] {
        let error = placed(unit, length).unwrap_err().to_string();
        assert!(error.contains(&format!("unit {unit}")), "{error}");
    }
    assert_eq!(client.placed(&good).unwrap().len(), UNIT_BYTES);
    assert!(client.placed(&good).is_err(), "it was given back");
    let (_server, client, _socket) = pair_with(None);
    assert!(client.placed(&good).is_err(), "there is no arena");
}

#[test]
fn clients_cannot_write_to_the_arena() {
    let arena = arena(1);
    // SAFETY: the descriptor is open as long as the arena. The file is not closed when it is dropped.
    let file = std::mem::ManuallyDrop::new(unsafe { File::from_raw_fd(arena.reader()) });
    assert!(Mapping::of(&file, UNIT_BYTES, Access::Write).is_err());
    assert!((&*file).write_all(b"x").is_err());
    assert!(Mapping::of(&file, UNIT_BYTES, Access::Read).is_ok());
}

#[test]
fn the_socket_closes_with_the_last_array_and_then_everything_comes_back() {
    let (server, client, mut socket) = pair(1);
    let array = client.placed(&place(&server, 10, 3).unwrap()).unwrap();
    drop(client);
    socket.set_nonblocking(true).unwrap();
    assert_eq!(socket.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    assert!(server.region(1).is_none());
    assert_eq!(array.as_slice(), [3; 10]);
    drop(array);
    assert_eq!(socket.read(&mut [0]).unwrap(), 0);
    // A killed client clears no mark.
    let (server, client, _socket) = pair(1);
    place(&server, 10, 3).unwrap();
    assert!(server.region(1).is_none());
    server.leave();
    assert!(server.region(1).is_some());
    drop(client);
}

#[test]
fn what_a_fork_may_read_is_not_given_back_before_it_has_left() {
    // In a process of its own, because forks affect everything that is held in one.
    let tests = std::env::current_exe().unwrap();
    let arguments = ["--exact", "memory::tests::in_a_process_that_forks", "--ignored"];
    let output = std::process::Command::new(tests).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "run by the test above"]
fn in_a_process_that_forks() {
    let (server, client, _socket) = pair(1);
    let array = client.placed(&place(&server, 10, 3).unwrap()).unwrap();
    // SAFETY: the child only exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the call ends the process at once.
        unsafe { libc::_exit(0) };
    }
    // SAFETY: the child is ours, and no status is requested.
    assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
    drop(array);
    assert!(server.region(1).is_none());
    server.leave();
    assert!(server.region(1).is_some());
}

#[test]
fn all_arenas_share_the_budget_and_trimming_gives_it_back() {
    let budget = Budget::new(4 * UNIT_BYTES);
    let [one, two] = [0; 2].map(|_| Arena::create(budget.clone()).unwrap());
    let (first, client, _socket) = pair_with(Some(one.clone()));
    let (second, _client, _second_socket) = pair_with(Some(two.clone()));
    let low = client.placed(&place(&first, UNIT_BYTES, 1).unwrap()).unwrap();
    let high = client.placed(&place(&first, 2 * UNIT_BYTES, 2).unwrap()).unwrap();
    assert!(second.region(2 * UNIT_BYTES).is_none(), "one unit is left");
    drop(high);
    assert!(second.region(2 * UNIT_BYTES).is_none(), "free, but the first arena's still");
    assert!(one.trim());
    assert!(second.region(2 * UNIT_BYTES).is_none(), "used of late");
    assert!(one.trim(), "one unit is held");
    let region = second.region(3 * UNIT_BYTES).unwrap();
    assert!(second.region(1).is_none());
    assert_eq!(low.as_slice(), [1; UNIT_BYTES]);
    drop((region, second, _client, two));
    assert_eq!(place(&first, 3 * UNIT_BYTES, 3).unwrap().unit, 1);
    drop((low, client));
    first.leave();
    assert_eq!([one.trim(), one.trim()], [true, false], "all of it was used of late, and then not");
}

#[test]
fn kept_chunks_are_for_all_clients_and_each_of_them_has_one_once() {
    let arena = arena(2);
    let (one, first, _first_socket) = pair_with(Some(arena.clone()));
    let (two, second, _second_socket) = pair_with(Some(arena.clone()));
    let page = Page::new();
    assert!(page.find(&one).is_none());
    let held = first.placed(&page.place(&one, UNIT_BYTES, 7).unwrap()).unwrap();
    assert!(page.find(&one).is_none(), "it has it already");
    drop(two.find(&page.origin()).unwrap());
    let shared = second.placed(&page.find(&two).unwrap()).unwrap();
    assert_eq!([held.as_slice(), shared.as_slice()], [[7; UNIT_BYTES]; 2]);
    drop(held);
    assert!(one.region(2 * UNIT_BYTES).is_none(), "the other client has it still");
    let again = first.placed(&page.find(&one).unwrap()).unwrap();
    drop((shared, again));
    assert!(Page::new().find(&one).is_none(), "another page");
    let region = one.region(2 * UNIT_BYTES).unwrap();
    assert!(page.find(&one).is_none(), "what is kept makes room");
    drop(region);
}

#[test]
fn kept_chunks_go_oldest_first_and_when_nobody_asks_for_them_or_can() {
    let (server, client, _socket) = pair(3);
    let pages: Vec<Page> = (0..3).map(|_| Page::new()).collect();
    for (value, page) in pages.iter().enumerate() {
        drop(client.placed(&page.place(&server, UNIT_BYTES, value as u8).unwrap()).unwrap());
    }
    drop(client.placed(&pages[0].find(&server).unwrap()).unwrap());
    drop(client.placed(&place(&server, UNIT_BYTES, 9).unwrap()).unwrap());
    let found: Vec<bool> =
        pages.iter().map(|page| page.find(&server).map(|c| client.placed(&c).unwrap()).is_some()).collect();
    assert_eq!(found, [true, false, true]);
    // A page that no longer exists cannot be requested again.
    let [first, _, last] = <[Page; 3]>::try_from(pages).ok().unwrap();
    drop(last);
    let arena = server.arena.as_ref().unwrap();
    assert!(arena.trim(), "asked for of late");
    assert!(first.find(&server).map(|c| client.placed(&c).unwrap()).is_some());
    assert!(arena.trim(), "and again");
    assert!(!arena.trim(), "but not since");
    assert!(first.find(&server).is_none());
    assert!(server.region(3 * UNIT_BYTES).is_some());
}

#[test]
fn the_same_made_twice_is_kept_once() {
    let arena = arena(2);
    let (one, first, _first_socket) = pair_with(Some(arena.clone()));
    let (two, second, _second_socket) = pair_with(Some(arena.clone()));
    let page = Page::new();
    let [earlier, later] = [&one, &two].map(|server| page.place(server, 10, 1).unwrap());
    let buffers = (first.placed(&earlier).unwrap(), second.placed(&later).unwrap());
    let found = page.find(&one).unwrap();
    assert_eq!(found, later);
    drop((buffers, first.placed(&found).unwrap()));
    assert!(one.region(2 * UNIT_BYTES).is_some());
}

/// An operation on chunks.
#[derive(Debug, Clone)]
enum Step {
    Place(usize),
    Abandon(usize),
    /// Places a chunk of one of some pages, or looks it up.
    Keep(usize, usize),
    Find(usize),
    Drop(prop::sample::Index),
    Trim,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1usize..300).prop_map(Step::Place),
        1 => (1usize..300).prop_map(Step::Abandon),
        3 => (0usize..4, 1usize..300).prop_map(|(page, kib)| Step::Keep(page, kib)),
        3 => (0usize..4).prop_map(Step::Find),
        3 => any::<prop::sample::Index>().prop_map(Step::Drop),
        1 => Just(Step::Trim),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Whatever is placed, abandoned and released: chunks in use keep their content, and in the end everything is free.
    #[test]
    fn chunks_never_overlap(steps in prop::collection::vec(step(), 1..60)) {
        let arena = arena(12);
        let (server, client, _socket) = pair_with(Some(arena.clone()));
        let mut held: Vec<(u8, Buffer)> = vec![];
        let (pages, mut kept) = ([(); 4].map(|()| Page::new()), [None; 4]);
        for (value, step) in steps.into_iter().enumerate() {
            let value = value as u8;
            match step {
                Step::Place(kib) => if let Some(chunk) = place(&server, kib << 10, value) {
                    held.push((value, client.placed(&chunk).unwrap()));
                },
                Step::Keep(page, kib) => if let Some(chunk) = pages[page].place(&server, kib << 10, value) {
                    kept[page] = Some(value);
                    held.push((value, client.placed(&chunk).unwrap()));
                },
                Step::Find(page) => if let Some(chunk) = pages[page].find(&server) {
                    held.push((kept[page].unwrap(), client.placed(&chunk).unwrap()));
                },
                Step::Abandon(kib) => _ = server.region(kib << 10).map(|mut region| region.write(0, &[255])),
                Step::Drop(at) if !held.is_empty() => _ = held.swap_remove(at.index(held.len())),
                Step::Drop(_) => {}
                Step::Trim => _ = arena.trim(),
            }
            for (value, chunk) in &held {
                prop_assert!(chunk.iter().all(|byte| byte == value));
            }
        }
        drop(held);
        prop_assert!(server.region(12 * UNIT_BYTES).is_some());
    }
}

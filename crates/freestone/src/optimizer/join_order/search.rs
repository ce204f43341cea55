//! The cheapest tree of joins: by dynamic programming over all connected sets of few relations (Moerkotte and Neumann,
//! "Analysis of Two Existing and One New Dynamic Programming Algorithm for the Generation of Optimal Bushy Join Trees",
//! VLDB 2006, DPsub), and greedily for more.

use std::collections::HashMap;
use std::rc::Rc;

use super::estimates::Estimates;
use super::graph::{Graph, Set};

/// A tree of joins. In one that was found, the first side of a join has fewer rows.
#[derive(Debug, Clone)]
pub enum Tree {
    Relation(usize),
    Join(Rc<(Tree, Tree)>),
}

impl Default for Tree {
    fn default() -> Self {
        Tree::Relation(0)
    }
}

impl Tree {
    pub fn join(a: Tree, b: Tree) -> Tree {
        Tree::Join(Rc::new((a, b)))
    }
}

/// The most relations for which all trees are compared.
const COMPARED: usize = 10;
/// The cost of a row that is put into a hash table, and of one that is looked up there, in rows of results.
const BUILD: f64 = 1.5;
const PROBE: f64 = 0.3;

/// A tree of some relations.
#[derive(Debug, Clone)]
struct Part {
    tree: Tree,
    set: Set,
    rows: f64,
    cost: f64,
}

impl Part {
    fn relation(estimates: &Estimates, at: usize) -> Part {
        Part { tree: Tree::Relation(at), set: 1 << at, rows: estimates.rows(at), cost: 0.0 }
    }

    fn join(graph: &Graph, estimates: &Estimates, a: &Part, b: &Part) -> Part {
        let rows = a.rows * b.rows * estimates.share(graph, a.set, b.set);
        let (build, probe) = if a.rows <= b.rows { (a, b) } else { (b, a) };
        let own = rows + BUILD * build.rows + PROBE * probe.rows;
        let tree = Tree::join(build.tree.clone(), probe.tree.clone());
        Part { tree, set: a.set | b.set, rows, cost: a.cost + b.cost + own }
    }
}

/// The cost of a tree.
pub fn cost(graph: &Graph, estimates: &Estimates, tree: &Tree) -> f64 {
    part(graph, estimates, tree).cost
}

/// The rows of a tree.
pub fn rows(graph: &Graph, estimates: &Estimates, tree: &Tree) -> f64 {
    part(graph, estimates, tree).rows
}

fn part(graph: &Graph, estimates: &Estimates, tree: &Tree) -> Part {
    match tree {
        Tree::Relation(at) => Part::relation(estimates, *at),
        Tree::Join(sides) => {
            Part::join(graph, estimates, &part(graph, estimates, &sides.0), &part(graph, estimates, &sides.1))
        }
    }
}

/// The cheapest tree that was found. Sets of relations that no key connects are joined last.
pub fn cheapest(graph: &Graph, estimates: &Estimates) -> Option<Tree> {
    let of_components = components(graph).into_iter().map(|relations| match relations.len() {
        0..=COMPARED => compared(graph, estimates, &relations),
        _ => greedy(graph, estimates, relations.iter().map(|at| Part::relation(estimates, *at)).collect()),
    });
    let parts = of_components.collect::<Option<Vec<Part>>>()?;
    greedy(graph, estimates, parts).map(|part| part.tree)
}

/// The relations that keys connect, directly or through others.
fn components(graph: &Graph) -> Vec<Vec<usize>> {
    let mut left: Set = (1 << graph.relations.len()) - 1;
    let mut components = vec![];
    while left != 0 {
        let mut own: Set = 1 << left.trailing_zeros();
        loop {
            let is_next = |at: &usize| own >> at & 1 == 0 && graph.classes_between(own, 1 << at).next().is_some();
            let Some(next) = (0..graph.relations.len()).find(is_next) else { break };
            own |= 1 << next;
        }
        left &= !own;
        components.push((0..graph.relations.len()).filter(|at| own >> at & 1 == 1).collect());
    }
    components
}

/// The best of all trees without cross joins of connected relations.
fn compared(graph: &Graph, estimates: &Estimates, relations: &[usize]) -> Option<Part> {
    let of_bits = |bits: usize| -> Set {
        let picked = relations.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
        picked.fold(0, |set, (_, relation)| set | 1 << relation)
    };
    let mut best: HashMap<Set, Part> = relations.iter().map(|at| (1 << at, Part::relation(estimates, *at))).collect();
    let all = (1usize << relations.len()) - 1;
    // Parts come before the sets that contain them, because their bits are a smaller number.
    for bits in 1..=all {
        if bits.count_ones() < 2 {
            continue;
        }
        let mut found: Option<Part> = None;
        let mut one = (bits - 1) & bits;
        while one > bits ^ one {
            if let (Some(a), Some(b)) = (best.get(&of_bits(one)), best.get(&of_bits(bits ^ one)))
                && graph.classes_between(a.set, b.set).next().is_some()
            {
                let new = Part::join(graph, estimates, a, b);
                if found.as_ref().is_none_or(|old| new.cost < old.cost) {
                    found = Some(new);
                }
            }
            one = (one - 1) & bits;
        }
        best.extend(found.map(|part| (part.set, part)));
    }
    best.remove(&of_bits(all))
}

/// Joins the two parts whose join has the fewest rows, again and again; those that a key connects first.
fn greedy(graph: &Graph, estimates: &Estimates, mut parts: Vec<Part>) -> Option<Part> {
    while parts.len() > 1 {
        let pairs = (0..parts.len()).flat_map(|a| (a + 1..parts.len()).map(move |b| (a, b)));
        let weighed = pairs.map(|(a, b)| {
            let is_cross = graph.classes_between(parts[a].set, parts[b].set).next().is_none();
            (is_cross, Part::join(graph, estimates, &parts[a], &parts[b]), (a, b))
        });
        let next =
            weighed.min_by(|(a_cross, a, _), (b_cross, b, _)| a_cross.cmp(b_cross).then(a.rows.total_cmp(&b.rows)));
        let (_, joined, (a, b)) = next?;
        parts.swap_remove(b);
        parts.swap_remove(a);
        parts.push(joined);
    }
    parts.pop()
}

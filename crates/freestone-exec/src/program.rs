//! Programs: expressions compiled once per query, evaluated a batch at a time.
//!
//! A program is a list of nodes in which each refers to earlier ones, so common parts are computed once. Functions that
//! it does not have are [`Foreign`]. What depends on one text column is computed once per entry of its dictionary.

use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};

use crate::arithmetic::{self, Comparison, Number, Operation};
use crate::division::{self, Rounding};
use crate::error::Result;
use crate::vector::{Batch, Dictionary, Form, Texts, Values, Vector};

/// The position of a node.
pub type Register = usize;

/// A constant.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    /// NULL, of any form.
    Null,
    /// A boolean.
    Bits(bool),
    /// An integer.
    Int(i64),
    /// A wide integer.
    Wide(i128),
    /// A float.
    Float(f64),
    /// A text.
    Text(Vec<u8>),
}

/// A function of vectors that the executor does not know.
pub trait Foreign: Send + Sync + fmt::Debug {
    /// The value of each row.
    ///
    /// # Errors
    /// The error of the function.
    fn evaluate(&self, inputs: &[Vector], rows: usize) -> Result<Vector>;

    /// Whether equal arguments give equal results, so that it may be evaluated once for equal ones.
    fn is_pure(&self) -> bool;
}

/// A step of a program.
#[derive(Debug, Clone)]
pub enum Node {
    /// A column of the batch.
    Column(usize),
    /// A constant.
    Literal(Scalar),
    /// An operation of integers whose result is known to fit 64 bits, or of floats.
    Arithmetic(Operation, Register, Register),
    /// An operation of integers of any width whose result is known to fit 128 bits.
    WideArithmetic(Operation, Register, Register),
    /// An integer divided by a positive one.
    Divide(Register, i64, Rounding),
    /// What is left of an integer when it is divided by a positive one, with its sign.
    Remainder(Register, i64),
    /// The quotient of integers as a float, whose divisors are zero only where they are NULL.
    Quotient(Register, Register),
    /// An integer as a float, divided by a power of ten.
    ToFloat(Register, f64),
    /// An integer of 64 bits with 128.
    ToWide(Register),
    /// A comparison of two values of one form. Floats have one zero, and one NaN, which is the greatest.
    Compare(Comparison, Register, Register),
    /// Three-valued conjunction.
    And(Register, Register),
    /// Three-valued disjunction.
    Or(Register, Register),
    /// Three-valued negation.
    Not(Register),
    /// Whether a value is NULL.
    IsNull(Register),
    /// The second value where the first is true, otherwise the third. All are of the form.
    Choose(Form, Register, Register, Register),
    /// A function of the given values.
    Foreign(Arc<dyn Foreign>, Vec<Register>),
}

impl Node {
    fn operands(&self) -> Vec<Register> {
        match self {
            Node::Column(_) | Node::Literal(_) => vec![],
            Node::Divide(a, ..)
            | Node::Remainder(a, _)
            | Node::ToFloat(a, _)
            | Node::ToWide(a)
            | Node::Not(a)
            | Node::IsNull(a) => vec![*a],
            Node::Quotient(a, b)
            | Node::Arithmetic(_, a, b)
            | Node::WideArithmetic(_, a, b)
            | Node::Compare(_, a, b)
            | Node::And(a, b)
            | Node::Or(a, b) => vec![*a, *b],
            Node::Choose(_, a, b, c) => vec![*a, *b, *c],
            Node::Foreign(_, inputs) => inputs.clone(),
        }
    }
}

/// Expressions over the columns of a batch.
#[derive(Debug, Clone, Default)]
pub struct Program {
    nodes: Vec<Node>,
    outputs: Vec<(Register, Form)>,
}

impl Program {
    /// Adds a node, and returns its register.
    pub fn add(&mut self, node: Node) -> Register {
        if let Node::Column(column) = &node
            && let Some(known) = self.nodes.iter().position(|n| matches!(n, Node::Column(c) if c == column))
        {
            return known;
        }
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Adds an output.
    pub fn output(&mut self, register: Register, form: Form) {
        self.outputs.push((register, form));
    }

    /// The constant of a register, if it is one.
    pub fn literal(&self, register: Register) -> Option<&Scalar> {
        match &self.nodes[register] {
            Node::Literal(scalar) => Some(scalar),
            _ => None,
        }
    }

    /// For each node, whether an output depends on it. A compiler may leave others, which must not be evaluated: they may
    /// fail where nothing asks for them.
    fn needed(&self) -> Vec<bool> {
        let mut needed = vec![false; self.nodes.len()];
        self.outputs.iter().for_each(|(register, _)| needed[*register] = true);
        for at in (0..self.nodes.len()).rev() {
            if needed[at] {
                self.nodes[at].operands().into_iter().for_each(|operand| needed[operand] = true);
            }
        }
        needed
    }

    /// Whether the outputs are the columns at these positions, in order.
    pub fn columns(&self) -> Option<Vec<usize>> {
        let column = |(register, _): &(Register, Form)| match self.nodes[*register] {
            Node::Column(column) => Some(column),
            _ => None,
        };
        self.outputs.iter().map(column).collect()
    }
}

#[derive(Debug, Clone)]
enum Operand {
    Vector(Vector),
    Scalar(Scalar),
}

/// What one thread keeps while it evaluates a program.
#[derive(Debug)]
pub struct Evaluator {
    program: Arc<Program>,
    needed: Vec<bool>,
    registers: Vec<Option<Operand>>,
    /// Per node, the values for the entries of the dictionary that was seen last.
    of_entries: Vec<Option<(Arc<Dictionary>, Entries)>>,
}

/// What is known for the entries of a dictionary.
#[derive(Debug, Clone)]
enum Entries {
    /// A value each.
    Values(Vector),
    /// A text each, of which none is NULL.
    Texts(Arc<Dictionary>),
    /// It cannot be computed for all of them.
    Failed,
}

/// Entries of a dictionary that are always worth being computed, and how many per row otherwise.
const ENTRIES_FEW: usize = 1 << 14;
const ENTRIES_PER_ROW: usize = 8;

impl Evaluator {
    /// An evaluator of a program.
    pub fn new(program: Arc<Program>) -> Evaluator {
        let nodes = program.nodes.len();
        Evaluator { needed: program.needed(), program, registers: vec![None; nodes], of_entries: vec![None; nodes] }
    }

    /// The outputs for the rows of a batch.
    ///
    /// # Errors
    /// The error of a foreign function.
    pub fn run(&mut self, batch: &Batch) -> Result<Vec<Vector>> {
        let program = self.program.clone();
        for (at, node) in program.nodes.iter().enumerate() {
            if self.needed[at] {
                self.registers[at] = Some(self.evaluate(at, node, batch)?);
            }
        }
        let outputs = program.outputs.iter().map(|(register, form)| self.output(*register, *form, batch.rows));
        let outputs = outputs.collect();
        self.registers.iter_mut().for_each(|register| *register = None);
        Ok(outputs)
    }

    /// The rows of a batch for which the first output, a boolean, is true.
    ///
    /// # Errors
    /// As for [`Evaluator::run`].
    pub fn passing(&mut self, batch: &Batch) -> Result<BooleanBuffer> {
        let outputs = self.run(batch)?;
        Ok(true_rows(&outputs[0]))
    }

    fn output(&self, register: Register, form: Form, rows: usize) -> Vector {
        match self.operand(register) {
            Operand::Vector(vector) => vector.clone(),
            Operand::Scalar(scalar) => filled(scalar, form, rows),
        }
    }

    fn operand(&self, register: Register) -> &Operand {
        self.registers[register].as_ref().expect("nodes refer to earlier ones")
    }

    fn vector(&self, register: Register, form: Form, rows: usize) -> Vector {
        self.output(register, form, rows)
    }

    fn evaluate(&mut self, at: usize, node: &Node, batch: &Batch) -> Result<Operand> {
        let rows = batch.rows;
        let vector = match node {
            Node::Column(column) => batch.columns[*column].clone(),
            Node::Literal(scalar) => return Ok(Operand::Scalar(scalar.clone())),
            Node::Arithmetic(op, a, b) => {
                let (a, b) = (self.number(*a), self.number(*b));
                arithmetic::binary(*op, a, b, rows)
            }
            Node::WideArithmetic(op, a, b) => arithmetic::wide(*op, self.number(*a), self.number(*b), rows),
            Node::Divide(a, divisor, rounding) => {
                division::divided(&self.vector(*a, Form::Int, rows), *divisor, *rounding)
            }
            Node::Remainder(a, divisor) => division::remainders(&self.vector(*a, Form::Int, rows), *divisor),
            Node::Quotient(a, b) => {
                division::quotients(&self.vector(*a, Form::Int, rows), &self.vector(*b, Form::Int, rows))
            }
            Node::ToFloat(a, divisor) => arithmetic::to_float(&self.vector(*a, Form::Int, rows), *divisor),
            Node::ToWide(a) => arithmetic::to_wide(&self.vector(*a, Form::Int, rows)),
            Node::Compare(comparison, a, b) => self.compare(at, *comparison, *a, *b, rows),
            Node::And(a, b) => {
                let (a, b) = (self.vector(*a, Form::Bits, rows), self.vector(*b, Form::Bits, rows));
                arithmetic::and(&a, &b)
            }
            Node::Or(a, b) => {
                let (a, b) = (self.vector(*a, Form::Bits, rows), self.vector(*b, Form::Bits, rows));
                arithmetic::or(&a, &b)
            }
            Node::Not(a) => {
                let a = self.vector(*a, Form::Bits, rows);
                Vector::with_nulls(Values::Bits(!a.as_bits()), a.valid)
            }
            Node::IsNull(a) => match self.operand(*a) {
                Operand::Scalar(scalar) => filled(&Scalar::Bits(*scalar == Scalar::Null), Form::Bits, rows),
                Operand::Vector(vector) => Vector::new(Values::Bits(match &vector.valid {
                    Some(valid) => !valid.inner(),
                    None => BooleanBuffer::new_unset(rows),
                })),
            },
            Node::Choose(form, condition, then, otherwise) => {
                let chosen = true_rows(&self.vector(*condition, Form::Bits, rows));
                let (then, otherwise) = (self.vector(*then, *form, rows), self.vector(*otherwise, *form, rows));
                arithmetic::choose(&chosen, &then, &otherwise)
            }
            Node::Foreign(function, inputs) => self.call(at, function.as_ref(), inputs, rows)?,
        };
        Ok(Operand::Vector(vector))
    }

    fn number(&self, register: Register) -> Number<'_> {
        match self.operand(register) {
            Operand::Vector(vector) => Number::Vector(vector),
            Operand::Scalar(scalar) => Number::Scalar(scalar),
        }
    }

    fn compare(&mut self, at: usize, comparison: Comparison, a: Register, b: Register, rows: usize) -> Vector {
        let (text, scalar, comparison) = match (self.operand(a).clone(), self.operand(b).clone()) {
            (Operand::Vector(text), Operand::Scalar(Scalar::Text(scalar))) => (text, scalar, comparison),
            (Operand::Scalar(Scalar::Text(scalar)), Operand::Vector(text)) => (text, scalar, comparison.swapped()),
            (Operand::Scalar(Scalar::Null), _) | (_, Operand::Scalar(Scalar::Null)) => {
                return filled(&Scalar::Null, Form::Bits, rows);
            }
            _ => return arithmetic::compare(comparison, self.number(a), self.number(b), rows),
        };
        match &text.values {
            Values::Codes(codes, dictionary) if is_worthwhile(dictionary, rows) => {
                let compared = |entries: &Vector| Ok(arithmetic::compare_text(comparison, entries, &scalar));
                let entries = self.entries(at, dictionary, compared);
                let mapped = entries.mapped(codes, text.valid.as_ref());
                mapped.unwrap_or_else(|| arithmetic::compare_text(comparison, &text, &scalar))
            }
            _ => arithmetic::compare_text(comparison, &text, &scalar),
        }
    }

    /// What a node computes for the entries of a dictionary.
    fn entries(
        &mut self,
        at: usize,
        dictionary: &Arc<Dictionary>,
        compute: impl FnOnce(&Vector) -> Result<Vector>,
    ) -> &Entries {
        if !self.of_entries[at].as_ref().is_some_and(|(of, _)| Arc::ptr_eq(of, dictionary)) {
            let entries = Vector::new(Values::Text(dictionary.texts.clone()));
            self.of_entries[at] = Some((dictionary.clone(), Entries::of(compute(&entries))));
        }
        let (_, entries) = self.of_entries[at].as_ref().expect("it was just computed");
        entries
    }

    fn call(&mut self, at: usize, function: &dyn Foreign, inputs: &[Register], rows: usize) -> Result<Vector> {
        let form_of = |register: Register| match self.operand(register) {
            Operand::Vector(vector) => vector.clone(),
            Operand::Scalar(scalar) => filled(scalar, scalar.form(), rows),
        };
        let inputs: Vec<Vector> = inputs.iter().map(|register| form_of(*register)).collect();
        if let ([input], true) = (inputs.as_slice(), function.is_pure())
            && let Values::Codes(codes, dictionary) = &input.values
            && is_worthwhile(dictionary, rows)
        {
            let len = dictionary.texts.len();
            let entries = self.entries(at, dictionary, |entries| function.evaluate(std::slice::from_ref(entries), len));
            // NULL may have a value of its own.
            if input.valid.is_none()
                && let Some(mapped) = entries.mapped(codes, None)
            {
                return Ok(mapped);
            }
        }
        function.evaluate(&inputs, rows)
    }
}

impl Scalar {
    /// The form of vectors of it.
    pub fn form(&self) -> Form {
        match self {
            Scalar::Null | Scalar::Int(_) => Form::Int,
            Scalar::Bits(_) => Form::Bits,
            Scalar::Wide(_) => Form::Wide,
            Scalar::Float(_) => Form::Float,
            Scalar::Text(_) => Form::Text,
        }
    }
}

fn is_worthwhile(dictionary: &Dictionary, rows: usize) -> bool {
    dictionary.texts.len() <= ENTRIES_FEW.max(rows * ENTRIES_PER_ROW)
}

/// The rows that are true.
pub fn true_rows(vector: &Vector) -> BooleanBuffer {
    match &vector.valid {
        Some(valid) => vector.as_bits() & valid.inner(),
        None => vector.as_bits().clone(),
    }
}

/// A constant for each row.
pub fn filled(scalar: &Scalar, form: Form, rows: usize) -> Vector {
    Vector::new(match scalar {
        Scalar::Null => return Vector::nulls(form, rows, &arrow_schema::DataType::Null),
        Scalar::Bits(true) => Values::Bits(BooleanBuffer::new_set(rows)),
        Scalar::Bits(false) => Values::Bits(BooleanBuffer::new_unset(rows)),
        Scalar::Int(v) => Values::Int(vec![*v; rows].into()),
        Scalar::Wide(v) => Values::Wide(vec![*v; rows].into()),
        Scalar::Float(v) => Values::Float(vec![*v; rows].into()),
        Scalar::Text(v) => {
            let one = arrow_array::StringViewArray::from_iter_values([String::from_utf8_lossy(v)]);
            Values::Text(Texts {
                views: vec![one.views()[0]; rows].into(),
                buffers: one.data_buffers().to_vec().into(),
            })
        }
    })
}

impl Entries {
    /// An entry that no selected row has may be an error.
    fn of(computed: Result<Vector>) -> Entries {
        let Ok(values) = computed else { return Entries::Failed };
        match &values.values {
            Values::Text(texts) if values.valid.is_none() => match as_array(texts) {
                Some(array) => Entries::Texts(Arc::new(Dictionary::new(array))),
                None => Entries::Failed,
            },
            _ => Entries::Values(values),
        }
    }

    /// The value of each row's code; `None` if they are not known.
    fn mapped(&self, codes: &ScalarBuffer<u32>, valid: Option<&NullBuffer>) -> Option<Vector> {
        let of_entries = match self {
            Entries::Failed => return None,
            Entries::Texts(dictionary) => {
                let values = Values::Codes(codes.clone(), dictionary.clone());
                return Some(Vector::with_nulls(values, valid.cloned()));
            }
            Entries::Values(values) => values,
        };
        let Some(valid) = valid else { return Some(of_entries.take(codes)) };
        if of_entries.is_empty() {
            return None;
        }
        // NULL rows may have any code.
        let last = of_entries.len() as u32 - 1;
        let codes: Vec<u32> = codes.iter().map(|code| (*code).min(last)).collect();
        let mapped = of_entries.take(&codes);
        let valid = NullBuffer::union(mapped.valid.as_ref(), Some(valid));
        Some(Vector { valid, ..mapped })
    }
}

fn as_array(texts: &Texts) -> Option<arrow_array::StringViewArray> {
    let vector = Vector::new(Values::Text(texts.clone()));
    let array = crate::convert::to_arrow(&vector, &arrow_schema::DataType::Utf8View).ok()?;
    Some(array.as_string_view().clone())
}

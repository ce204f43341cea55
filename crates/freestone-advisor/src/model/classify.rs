//! The measured kernel of a stored column.

use freestone_codec::{ColumnPlan, Encoding, Kind, Transform};

use crate::profile::Family;

/// The kernel's family of a chunk.
pub fn of_chunk(kind: Kind, plan: ColumnPlan, bytes_a_value: f64) -> Family {
    let is_text = kind == Kind::Bytes;
    match (plan.transform, plan.encoding) {
        (Transform::Dictionary, Encoding::Rle) if is_text => Family::TextDictionaryRle,
        (Transform::Dictionary, Encoding::Rle) => Family::DictionaryRle,
        (Transform::Dictionary, _) if is_text => Family::TextDictionary,
        (Transform::Dictionary, _) => Family::Dictionary,
        (Transform::Fsst, _) => Family::Fsst,
        (_, Encoding::Block) => Family::Block,
        (_, Encoding::Dictionary) if is_text => Family::TextPageDictionary,
        _ if is_text => Family::Text,
        _ if bytes_a_value < 0.01 => Family::Constant,
        _ if kind == Kind::Wide => Family::Wide,
        (_, Encoding::Dictionary) => Family::PageDictionary,
        (_, Encoding::Delta) => Family::Delta,
        (_, Encoding::DeltaLz) => Family::DeltaLz,
        (_, Encoding::Rle) => Family::Rle,
        (_, Encoding::Alp) => Family::Alp,
        (_, Encoding::BitPack) if kind != Kind::Int => Family::FloatKey,
        (_, Encoding::BitPack) => Family::BitPack,
        _ if kind != Kind::Int => Family::Float,
        _ => Family::Plain,
    }
}

/// The kernel's family of a field in super tuples.
pub fn of_dense(kind: Kind, plan: ColumnPlan, bits: f64, is_general: bool) -> Family {
    match (kind, plan.transform) {
        (Kind::Bytes, Transform::Dictionary) => Family::TextDictionary,
        (Kind::Bytes, Transform::Fsst) => Family::Fsst,
        (Kind::Bytes, _) => Family::Text,
        (_, Transform::Dictionary) => Family::Dictionary,
        (Kind::Wide, _) => Family::General,
        _ if is_general || bits > 56.5 => Family::General,
        (Kind::F64 | Kind::F32, _) => Family::FloatKey,
        _ => Family::BitPack,
    }
}

/// The kernel's family of a field in slotted tuples.
pub fn of_slotted(kind: Kind) -> Family {
    match kind {
        Kind::Bytes => Family::Text,
        Kind::F64 | Kind::F32 => Family::Float,
        Kind::Int | Kind::Wide => Family::Plain,
    }
}

/// Kernels that replace those of a family that was not measured in a form, best first.
pub fn instead(family: Family) -> &'static [Family] {
    use Family::*;
    match family {
        Constant | Plain | Delta | DeltaLz | Rle | PageDictionary | Dictionary | DictionaryRle => {
            &[BitPack, Plain, General]
        }
        BitPack | General | FloatKey | Float | Alp => &[BitPack, General, Float, Plain],
        Wide => &[General, Plain],
        TextDictionary | TextDictionaryRle | TextPageDictionary => &[TextDictionary, Text],
        Text | Fsst | Block => &[Text],
        Nulls => &[],
    }
}

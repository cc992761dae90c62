//! An image with few data segments.
//!
//! Wizer keeps the place of each old data segment, empty, and writes a new one for each piece of memory. Go has tens of thousands of them, and
//! Wasmtime looks at each when it makes an instance: 0.2 ms for a small Go engine. Nothing but `memory.init` and `data.drop` ever names a
//! segment; a module that has neither does the same with one segment for all.

use wasm_encoder::{ConstExpr, DataSection, Module, RawSection};
use wasmparser::{DataKind, Operator, Parser, Payload};

/// Pieces of memory with less between them become one segment: zeros cost less than a segment.
const GAP_BYTES: usize = 4_096;

/// The same module with its data in as few segments as that takes; nothing if its code names segments.
pub(crate) fn compact(image: &[u8]) -> Option<Vec<u8>> {
    let mut module = Module::new();
    for payload in Parser::new(0).parse_all(image) {
        let payload = payload.ok()?;
        match &payload {
            Payload::CodeSectionEntry(body) => {
                let mut operators = body.get_operators_reader().ok()?;
                while !operators.eof() {
                    let names_data = matches!(
                        operators.read().ok()?,
                        Operator::MemoryInit { .. }
                            | Operator::DataDrop { .. }
                            | Operator::ArrayNewData { .. }
                            | Operator::ArrayInitData { .. }
                    );
                    if names_data {
                        return None;
                    }
                }
            }
            // Only code that names segments needs their number in advance.
            Payload::DataCountSection { .. } => {}
            Payload::DataSection(segments) => {
                let mut pieces: Vec<(usize, &[u8])> = Vec::new();
                for segment in segments.clone() {
                    let segment = segment.ok()?;
                    if let DataKind::Active { memory_index: 0, offset_expr } = &segment.kind {
                        let mut offset = offset_expr.get_operators_reader();
                        let Operator::I32Const { value } = offset.read().ok()? else {
                            return None;
                        };
                        pieces.push((value.cast_unsigned() as usize, segment.data));
                    } else if !segment.data.is_empty() {
                        return None;
                    }
                }
                module.section(&section(pieces));
            }
            other => {
                if let Some((id, range)) = other.as_section() {
                    let data = image.get(range)?;
                    module.section(&RawSection { id, data });
                }
            }
        }
    }
    Some(module.finish())
}

/// One segment for pieces that lie close together.
fn section(mut pieces: Vec<(usize, &[u8])>) -> DataSection {
    // Pieces of an image do not overlap, so their order does not matter.
    pieces.sort_by_key(|(offset, _)| *offset);
    let mut segments: Vec<(usize, Vec<u8>)> = Vec::new();
    for (offset, data) in pieces {
        match segments.last_mut() {
            Some((start, held)) if offset - (*start + held.len()) <= GAP_BYTES => {
                held.resize(offset - *start, 0);
                held.extend_from_slice(data);
            }
            _ => segments.push((offset, data.to_vec())),
        }
    }
    let mut section = DataSection::new();
    for (offset, data) in segments {
        let offset = u32::try_from(offset).expect("an address of 32 bits");
        section.active(0, &ConstExpr::i32_const(offset.cast_signed()), data);
    }
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(module: &[u8]) -> Vec<(i32, Vec<u8>)> {
        let mut found = Vec::new();
        for payload in Parser::new(0).parse_all(module) {
            if let Ok(Payload::DataSection(segments)) = payload {
                for segment in segments {
                    let segment = segment.expect("it is valid");
                    let DataKind::Active { offset_expr, .. } = segment.kind else {
                        panic!("only active segments");
                    };
                    let Ok(Operator::I32Const { value }) = offset_expr.get_operators_reader().read() else {
                        panic!("only constants");
                    };
                    found.push((value, segment.data.to_vec()));
                }
            }
        }
        found
    }

    /// Goal: the memory is the same, with fewer segments. Method: pieces that lie close, one far away, an empty one, out of order.
    #[test]
    fn close_pieces_become_one() {
        let module = wat::parse_str(
            "(module (memory 2) (data \"\") (data (i32.const 14) \"cd\") (data (i32.const 10) \"ab\") (data (i32.const 60000) \"z\")
               (func (export \"f\") nop))",
        );
        let compacted = compact(&module.expect("it is right")).expect("no code names data");
        assert_eq!(segments(&compacted), [(10, b"ab\0\0cd".to_vec()), (60_000, b"z".to_vec())]);
        wasmparser::Validator::new().validate_all(&compacted).expect("it is valid");
    }

    #[test]
    fn code_that_names_a_segment_keeps_them_all() {
        let module = wat::parse_str(
            "(module (memory 1) (data $d \"abc\") (func (memory.init $d (i32.const 0) (i32.const 0) (i32.const 3))))",
        );
        assert_eq!(compact(&module.expect("it is right")), None);
    }
}

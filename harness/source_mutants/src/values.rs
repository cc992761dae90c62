//! What replaces what: operators, constants and returned values.

use syn::{BinOp, GenericArgument, LitInt, PathArguments, ReturnType, Type};

use crate::mutation::Kind;

/// What an operator becomes.
#[must_use]
pub fn operators(op: &BinOp) -> Option<(Kind, &'static [&'static str])> {
    use Kind::{Arithmetic, Comparison, Logic};
    Some(match op {
        BinOp::Eq(_) => (Comparison, &["!="]),
        BinOp::Ne(_) => (Comparison, &["=="]),
        BinOp::Lt(_) => (Comparison, &["<=", "==", ">"]),
        BinOp::Le(_) => (Comparison, &["<", ">"]),
        BinOp::Gt(_) => (Comparison, &[">=", "==", "<"]),
        BinOp::Ge(_) => (Comparison, &[">", "<"]),
        BinOp::And(_) => (Logic, &["||"]),
        BinOp::Or(_) => (Logic, &["&&"]),
        BinOp::Add(_) => (Arithmetic, &["-", "*"]),
        BinOp::Sub(_) => (Arithmetic, &["+", "/"]),
        BinOp::Mul(_) => (Arithmetic, &["+", "/"]),
        BinOp::Div(_) => (Arithmetic, &["%", "*"]),
        BinOp::Rem(_) => (Arithmetic, &["/", "+"]),
        BinOp::Shl(_) => (Arithmetic, &[">>"]),
        BinOp::Shr(_) => (Arithmetic, &["<<"]),
        BinOp::BitAnd(_) => (Arithmetic, &["|", "^"]),
        BinOp::BitOr(_) => (Arithmetic, &["&", "^"]),
        BinOp::BitXor(_) => (Arithmetic, &["&", "|"]),
        BinOp::AddAssign(_) => (Arithmetic, &["-=", "*="]),
        BinOp::SubAssign(_) => (Arithmetic, &["+=", "/="]),
        BinOp::MulAssign(_) => (Arithmetic, &["+=", "/="]),
        BinOp::DivAssign(_) => (Arithmetic, &["%=", "*="]),
        BinOp::RemAssign(_) => (Arithmetic, &["/=", "+="]),
        BinOp::ShlAssign(_) => (Arithmetic, &[">>="]),
        BinOp::ShrAssign(_) => (Arithmetic, &["<<="]),
        BinOp::BitAndAssign(_) => (Arithmetic, &["|=", "^="]),
        BinOp::BitOrAssign(_) => (Arithmetic, &["&=", "^="]),
        BinOp::BitXorAssign(_) => (Arithmetic, &["&=", "|="]),
        _ => return None,
    })
}

/// The neighbours of a number.
#[must_use]
pub fn neighbours(number: &LitInt) -> Vec<String> {
    let Ok(value) = number.base10_parse::<u128>() else {
        return Vec::new();
    };
    let around = [value.checked_add(1), value.checked_sub(1)];
    let written = |value: u128| format!("{value}{}", number.suffix());
    around.into_iter().flatten().map(written).collect()
}

/// What a function can return at once, written as expressions. Some will not compile.
#[must_use]
pub fn returned(output: &ReturnType) -> Vec<String> {
    match output {
        ReturnType::Default => vec!["()".to_owned()],
        ReturnType::Type(_, ty) => of_type(ty),
    }
}

fn of_type(ty: &Type) -> Vec<String> {
    match ty {
        Type::Path(path) => path.path.segments.last().map_or_else(Vec::new, of_segment),
        Type::Tuple(tuple) => {
            let first = |ty: &Type| of_type(ty).into_iter().next();
            let parts: Option<Vec<String>> = tuple.elems.iter().map(first).collect();
            parts.map_or_else(Vec::new, |parts| vec![format!("({})", parts.join(", "))])
        }
        Type::Reference(reference) => match &*reference.elem {
            Type::Slice(_) if reference.mutability.is_some() => vec!["&mut []".to_owned()],
            Type::Slice(_) => vec!["&[]".to_owned()],
            Type::Path(path) if path.path.is_ident("str") => vec!["\"\"".to_owned()],
            _ => Vec::new(),
        },
        Type::Array(_) => vec!["Default::default()".to_owned()],
        _ => Vec::new(),
    }
}

fn of_segment(segment: &syn::PathSegment) -> Vec<String> {
    let inner = |at: usize| -> Vec<String> {
        let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
            return Vec::new();
        };
        let types = arguments.args.iter().filter_map(|argument| match argument {
            GenericArgument::Type(ty) => Some(ty),
            _ => None,
        });
        types.skip(at).map(of_type).next().unwrap_or_default()
    };
    let around = |name: &'static str| inner(0).into_iter().map(move |it| format!("{name}({it})"));
    let text = |text: &str| vec![text.to_owned()];
    match segment.ident.to_string().as_str() {
        "bool" => vec!["true".to_owned(), "false".to_owned()],
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i8" | "i16" | "i32" | "i64" | "i128"
        | "isize" | "Nanos" => vec!["0".to_owned(), "1".to_owned()],
        "String" => text("String::new()"),
        "Vec" => text("Vec::new()"),
        "Option" => text("None").into_iter().chain(around("Some")).collect(),
        "Result" => around("Ok").collect(),
        "Box" => around("Box::new").collect(),
        _ => text("Default::default()"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(output: &str) -> Vec<String> {
        let function: syn::ItemFn = syn::parse_str(&format!("fn f() {output} {{ todo() }}"))
            .unwrap_or_else(|error| panic!("{output}: {error}"));
        returned(&function.sig.output)
    }

    /// Goal: a function returns each simple value of its type. Method: the types that the engine's functions have.
    #[test]
    fn returned_values_follow_the_type() {
        assert_eq!(of(""), ["()"]);
        assert_eq!(of("-> bool"), ["true", "false"]);
        assert_eq!(of("-> Option<u64>"), ["None", "Some(0)", "Some(1)"]);
        assert_eq!(of("-> Result<(), Error>"), ["Ok(())"]);
        assert_eq!(of("-> (u64, Vec<u8>)"), ["(0, Vec::new())"]);
        assert_eq!(of("-> &[u8]"), ["&[]"]);
        assert!(of("-> impl Iterator<Item = u8>").is_empty());
        assert!(of("-> !").is_empty());
    }

    /// Goal: a number is moved by one either way, within its type's sign. Method: some numbers.
    #[test]
    fn numbers_have_neighbours() {
        let of = |text: &str| neighbours(&syn::parse_str::<LitInt>(text).expect("a number"));
        assert_eq!(of("0"), ["1"]);
        assert_eq!(of("16_384_u64"), ["16385u64", "16383u64"]);
    }
}

//! Finding the places of a source file that can be edited.
//!
//! Left alone: tests, code behind `cfg(feature = "mutants")`, arguments of macros (assertions and messages among them),
//! patterns, types, capacities that are only a hint, coverage points, log lines and events. So are `Display`, `Debug` and
//! `Error`, whose text is for people.

use std::collections::BTreeMap;
use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Block, Expr, ItemFn, Lit, Meta, ReturnType, Stmt, UnOp};

use crate::mutation::{Kind, Mutation, Switch};
use crate::values::{neighbours, operators, returned};

/// Calls whose arguments change speed or what people read, and nothing else.
const HINTS: [&str; 8] = [
    "with_capacity",
    "reserve",
    "reserve_exact",
    "expect",
    "reached",
    "log_line",
    "happened",
    "mutant",
];
/// Traits whose text is for people.
const FOR_PEOPLE: [&str; 3] = ["Display", "Debug", "Error"];

/// The mutations of a source file, in the order of their places. Numbers are given later.
///
/// # Errors
/// It is no Rust source.
pub fn mutations(file: &str, source: &str) -> Result<Vec<Mutation>, syn::Error> {
    let parsed = syn::parse_file(source)?;
    let mut finder = Finder {
        file,
        source,
        path: Vec::new(),
        constant: 0,
        found: Vec::new(),
    };
    finder.visit_file(&parsed);
    let mut found = finder.found;
    found.sort_by_key(|it| (it.start, std::cmp::Reverse(it.end), it.switch));
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for mutation in &mut found {
        let count = seen.entry(mutation.key()).or_default();
        *count += 1;
        mutation.nth = *count;
    }
    Ok(found)
}

/// The modules that only tests have, as paths without the ending: `#[cfg(test)] mod name;` in this file.
///
/// # Errors
/// It is no Rust source.
pub fn test_modules(file: &str, source: &str) -> Result<Vec<String>, syn::Error> {
    let folder = match file.rsplit_once('/') {
        Some((folder, _)) => format!("{folder}/"),
        None => String::new(),
    };
    let parsed = syn::parse_file(source)?;
    let names = parsed.items.iter().filter_map(|item| match item {
        syn::Item::Mod(item) if item.content.is_none() && is_left_out(&item.attrs) => {
            Some(format!("{folder}{}", item.ident))
        }
        _ => None,
    });
    Ok(names.collect())
}

struct Finder<'a> {
    file: &'a str,
    source: &'a str,
    /// The names around the place: modules, types, functions.
    path: Vec<String>,
    /// How many constant contexts are around it.
    constant: usize,
    found: Vec<Mutation>,
}

impl Finder<'_> {
    fn text(&self, range: Range<usize>) -> &str {
        &self.source[range]
    }

    fn text_of(&self, node: &impl Spanned) -> String {
        self.text(node.span().byte_range()).to_owned()
    }

    fn add(&mut self, kind: Kind, switch: Switch, place: Range<usize>, texts: (String, String)) {
        let switch = if self.constant > 0 {
            Switch::None
        } else {
            switch
        };
        let line_start = self.source[..place.start]
            .rfind('\n')
            .map_or(0, |at| at + 1);
        self.found.push(Mutation {
            number: 0,
            file: self.file.to_owned(),
            line: 1 + self.source[..place.start].matches('\n').count(),
            column: 1 + self.source[line_start..place.start].chars().count(),
            function: self.path.join("::"),
            kind,
            switch,
            start: place.start,
            end: place.end,
            before: texts.0,
            after: texts.1,
            nth: 1,
            built: switch != Switch::None,
        });
    }

    /// The expression becomes this.
    fn replace(&mut self, kind: Kind, expr: &impl Spanned, after: String) {
        let before = self.text_of(expr);
        let place = expr.span().byte_range();
        self.add(kind, Switch::Expression, place, (before, after));
    }

    fn within(&mut self, name: String, visit: impl FnOnce(&mut Self)) {
        self.path.push(name);
        visit(self);
        self.path.pop();
    }

    fn constantly(&mut self, visit: impl FnOnce(&mut Self)) {
        self.constant += 1;
        visit(self);
        self.constant -= 1;
    }

    fn function(&mut self, sig: &syn::Signature, block: &Block, visit: impl FnOnce(&mut Self)) {
        let is_constant = sig.constness.is_some();
        self.within(sig.ident.to_string(), |this| {
            let inner = |this: &mut Self| {
                this.returns(sig, block);
                visit(this);
            };
            if is_constant {
                this.constantly(inner);
            } else {
                inner(this);
            }
        });
    }

    /// The body is replaced by a value.
    fn returns(&mut self, sig: &syn::Signature, block: &Block) {
        let is_one_statement = block.stmts.len() == 1 && is_removable(&block.stmts[0]);
        let is_unit = matches!(sig.output, ReturnType::Default);
        if block.stmts.is_empty() || sig.ident == "default" || (is_unit && is_one_statement) {
            return;
        }
        let body = self.text_of(block);
        let inside = block.brace_token.span.open().byte_range().end;
        for value in returned(&sig.output) {
            // What it returns anyhow is no edit.
            if body.trim_matches(['{', '}']).trim() == value {
                continue;
            }
            let texts = (body.clone(), value);
            self.add(Kind::Return, Switch::Body, inside..inside, texts);
        }
    }

    fn binary(&mut self, binary: &syn::ExprBinary) {
        let Some((kind, others)) = operators(&binary.op) else {
            return;
        };
        let is_logic = matches!(binary.op, BinOp::And(_) | BinOp::Or(_));
        if is_logic && (has_let(&binary.left) || has_let(&binary.right)) {
            return;
        }
        let (left, right) = (self.text_of(&binary.left), self.text_of(&binary.right));
        let assigns = self.text_of(&binary.op).len() > 1
            && self.text_of(&binary.op).ends_with('=')
            && kind == Kind::Arithmetic;
        for other in others {
            let after = if assigns {
                format!("{left} {other} {right}")
            } else {
                format!("({left}) {other} ({right})")
            };
            self.replace(kind, binary, after);
        }
    }

    fn condition(&mut self, condition: &Expr) {
        let has_mutations_of_its_own = matches!(
            strip(condition),
            Expr::Binary(_) | Expr::Unary(_) | Expr::Let(_) | Expr::Lit(_) | Expr::Macro(_)
        );
        if has_mutations_of_its_own || calls(condition, &["mutant"]) || has_let(condition) {
            return;
        }
        let after = format!("!({})", self.text_of(condition));
        self.replace(Kind::Negation, condition, after);
    }

    fn arms(&mut self, matched: &syn::ExprMatch) {
        let catches_all = |arm: &syn::Arm| match &arm.pat {
            syn::Pat::Wild(_) => arm.guard.is_none(),
            syn::Pat::Ident(name) => {
                let lower = name.ident.to_string().starts_with(char::is_lowercase);
                lower && name.subpat.is_none() && arm.guard.is_none()
            }
            _ => false,
        };
        let has_catch_all = matched.arms.last().is_some_and(catches_all);
        for arm in &matched.arms {
            if is_left_out(&arm.attrs) {
                continue;
            }
            if let Some((_, guard)) = &arm.guard {
                if has_let(guard) {
                    continue;
                }
                for value in ["true", "false"] {
                    self.replace(Kind::Arm, guard, value.to_owned());
                }
            } else if has_catch_all && !catches_all(arm) {
                let before = self.text_of(&arm.pat);
                let end = arm.pat.span().byte_range().end;
                self.add(Kind::Arm, Switch::Arm, end..end, (before, String::new()));
            }
        }
    }

    fn statement(&mut self, statement: &Stmt) {
        if is_removable(statement) {
            let before = self.text_of(statement);
            let place = statement.span().byte_range();
            let texts = (before, String::new());
            self.add(Kind::Statement, Switch::Statement, place, texts);
        }
    }
}

/// Whether an attribute says that it is no part of the ordinary engine.
fn is_left_out(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let tokens = list.tokens.to_string();
            tokens == "test" || tokens.contains("\"mutants\"") && !tokens.starts_with("not")
        }
        Meta::Path(path) => path.is_ident("test"),
        _ => false,
    })
}

fn strip(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(inner) => strip(&inner.expr),
        other => other,
    }
}

fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        Expr::Paren(inner) => has_let(&inner.expr),
        _ => false,
    }
}

/// Whether it is a call of a function or method of one of these names.
fn calls(expr: &Expr, names: &[&str]) -> bool {
    let is_one = |ident: &syn::Ident| names.iter().any(|name| ident == name);
    match expr {
        Expr::MethodCall(call) => is_one(&call.method),
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) => path
                .path
                .segments
                .last()
                .is_some_and(|segment| is_one(&segment.ident)),
            _ => false,
        },
        _ => false,
    }
}

fn is_removable(statement: &Stmt) -> bool {
    let Stmt::Expr(expr, Some(_)) = statement else {
        return false;
    };
    let is_kind = match expr {
        Expr::Binary(binary) => operators(&binary.op).is_some(),
        other => matches!(
            other,
            Expr::Assign(_)
                | Expr::Await(_)
                | Expr::Break(_)
                | Expr::Call(_)
                | Expr::Continue(_)
                | Expr::MethodCall(_)
                | Expr::Return(_)
                | Expr::Try(_)
        ),
    };
    is_kind && !calls(expr, &HINTS)
}

fn is_for_people(item: &syn::ItemImpl) -> bool {
    item.trait_.as_ref().is_some_and(|(_, path, _)| {
        let last = path.segments.last();
        last.is_some_and(|segment| FOR_PEOPLE.iter().any(|name| segment.ident == name))
    })
}

fn name_of(ty: &syn::Type) -> String {
    match ty {
        syn::Type::Path(path) => path
            .path
            .segments
            .last()
            .map_or_else(String::new, |segment| segment.ident.to_string()),
        _ => "_".to_owned(),
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_left_out(&item.attrs) {
            let name = item.ident.to_string();
            self.within(name, |this| visit::visit_item_mod(this, item));
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_left_out(&item.attrs) && !is_for_people(item) {
            let name = name_of(&item.self_ty);
            self.within(name, |this| visit::visit_item_impl(this, item));
        }
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        if !is_left_out(&item.attrs) {
            self.function(&item.sig, &item.block, |this| {
                visit::visit_item_fn(this, item);
            });
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_left_out(&item.attrs) {
            self.function(&item.sig, &item.block, |this| {
                visit::visit_impl_item_fn(this, item);
            });
        }
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        if item.ident != "_" && !is_left_out(&item.attrs) {
            let name = item.ident.to_string();
            self.within(name, |this| {
                this.constantly(|this| this.visit_expr(&item.expr))
            });
        }
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        let name = item.ident.to_string();
        self.within(name, |this| {
            this.constantly(|this| this.visit_expr(&item.expr))
        });
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        let name = item.ident.to_string();
        self.within(name, |this| {
            this.constantly(|this| this.visit_expr(&item.expr))
        });
    }

    fn visit_expr_repeat(&mut self, expr: &'ast syn::ExprRepeat) {
        self.visit_expr(&expr.expr);
        self.constantly(|this| this.visit_expr(&expr.len));
    }

    fn visit_block(&mut self, block: &'ast Block) {
        for statement in &block.stmts {
            let attributes = match statement {
                Stmt::Local(local) => &local.attrs[..],
                Stmt::Expr(expr, _) => attributes(expr),
                _ => &[],
            };
            if !is_left_out(attributes) {
                self.statement(statement);
                self.visit_stmt(statement);
            }
        }
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if !is_left_out(&arm.attrs) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Binary(binary) => self.binary(binary),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_) | UnOp::Neg(_)) => {
                if calls(strip(&unary.expr), &["mutant"]) {
                    return;
                }
                let inner = self.text_of(&unary.expr);
                self.replace(Kind::Negation, unary, format!("({inner})"));
            }
            Expr::Lit(literal) => match &literal.lit {
                Lit::Int(number) => {
                    for other in neighbours(number) {
                        self.replace(Kind::Constant, literal, other);
                    }
                }
                Lit::Bool(value) => {
                    let other = (!value.value).to_string();
                    self.replace(Kind::Constant, literal, other);
                }
                _ => {}
            },
            Expr::If(branch) => {
                if calls(strip(&branch.cond), &["mutant"]) {
                    // The body is that of a mutant with a name.
                    if let Some((_, other)) = &branch.else_branch {
                        self.visit_expr(other);
                    }
                    return;
                }
                self.condition(&branch.cond);
            }
            Expr::While(looped) => self.condition(&looped.cond),
            Expr::Match(matched) => self.arms(matched),
            Expr::MethodCall(call) if calls(expr, &HINTS) => {
                self.visit_expr(&call.receiver);
                return;
            }
            Expr::Call(_) if calls(expr, &HINTS) => return,
            _ => {}
        }
        visit::visit_expr(self, expr);
    }

    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_span(&mut self, _: &Span) {}
}

fn attributes(expr: &Expr) -> &[Attribute] {
    match expr {
        Expr::Block(it) => &it.attrs,
        Expr::Call(it) => &it.attrs,
        Expr::If(it) => &it.attrs,
        Expr::Match(it) => &it.attrs,
        Expr::MethodCall(it) => &it.attrs,
        Expr::Return(it) => &it.attrs,
        _ => &[],
    }
}

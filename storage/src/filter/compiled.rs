//! A filter, checked and compiled.

use super::{Filter, pattern::Pattern};
use crate::{Cell, Error, FamilyName, Result, RowKey, TimestampRange, row::newest};
use bytes::Bytes;
use std::ops::{Bound, RangeBounds};

/// A [`Filter`] with its patterns compiled. Cheap to apply, but not to create: once for a read.
#[derive(Clone, Debug)]
pub struct CompiledFilter(Step);

impl CompiledFilter {
    /// Checks and compiles.
    ///
    /// # Errors
    /// Errors of [`Filter::check`].
    pub fn new(filter: &Filter) -> Result<Self> {
        filter.check_size()?;
        Ok(Self(Step::new(filter)?))
    }

    /// Applies the filter to a row's cells. Both sides are in [order](Cell::order); only an interleave repeats a cell.
    pub fn apply(&self, key: &RowKey, cells: Vec<Cell>) -> Vec<Cell> {
        self.0.apply(key, cells)
    }
}

/// A compiled filter: the variants of [`Filter`], without those that are resolved by compiling.
#[derive(Clone, Debug)]
enum Step {
    Pass,
    Block,
    Key(Pattern),
    Family(Pattern),
    Qualifier(Pattern),
    Qualifiers(FamilyName, Range),
    Timestamps(TimestampRange),
    Value(Pattern),
    Values(Range),
    PerColumn(usize),
    PerRow(usize),
    Offset(usize),
    Strip,
    Chain(Vec<Step>),
    Interleave(Vec<Step>),
    Condition { predicate: Box<Step>, then: Box<Step>, otherwise: Box<Step> },
}

type Range = (Bound<Bytes>, Bound<Bytes>);

impl Step {
    fn new(filter: &Filter) -> Result<Self> {
        let limit = |cells: u32| match cells {
            0 => Err(Error::Invalid("a filter limits to no cells".into())),
            cells => Ok(cells as usize),
        };
        let all = |parts: &[Filter]| match parts {
            [] => Err(Error::Invalid("a filter combines no filters".into())),
            parts => parts.iter().map(Self::new).collect::<Result<Vec<_>>>(),
        };
        Ok(match filter {
            Filter::PassAll => Self::Pass,
            Filter::BlockAll => Self::Block,
            Filter::RowKeyRegex(pattern) => Self::Key(Pattern::new(pattern)?),
            Filter::FamilyRegex(pattern) => Self::Family(Pattern::new(pattern)?),
            Filter::QualifierRegex(pattern) => Self::Qualifier(Pattern::new(pattern)?),
            Filter::QualifierRange { family, start, end } => {
                Self::Qualifiers(family.clone(), (start.clone(), end.clone()))
            }
            Filter::Timestamps(range) => Self::Timestamps(*range),
            Filter::ValueRegex(pattern) => Self::Value(Pattern::new(pattern)?),
            Filter::ValueRange { start, end } => Self::Values((start.clone(), end.clone())),
            Filter::CellsPerColumn(cells) => Self::PerColumn(limit(*cells)?),
            Filter::CellsPerRow(cells) => Self::PerRow(limit(*cells)?),
            Filter::CellsPerRowOffset(cells) => Self::Offset(*cells as usize),
            Filter::StripValue => Self::Strip,
            Filter::Chain(parts) => Self::Chain(all(parts)?),
            Filter::Interleave(parts) => Self::Interleave(all(parts)?),
            Filter::Condition { predicate, then, otherwise } => {
                let branch = |branch: &Option<Box<Filter>>| branch.as_ref().map_or(Ok(Self::Block), |of| Self::new(of));
                Self::Condition {
                    predicate: Box::new(Self::new(predicate)?),
                    then: Box::new(branch(then)?),
                    otherwise: Box::new(branch(otherwise)?),
                }
            }
        })
    }

    fn apply(&self, key: &RowKey, mut cells: Vec<Cell>) -> Vec<Cell> {
        match self {
            Self::Pass => {}
            Self::Block => cells.clear(),
            Self::Key(pattern) if pattern.matches(key) => {}
            Self::Key(_) => cells.clear(),
            Self::Family(pattern) => cells.retain(|cell| pattern.matches(cell.family.as_str().as_bytes())),
            Self::Qualifier(pattern) => cells.retain(|cell| pattern.matches(&cell.qualifier)),
            Self::Qualifiers(family, range) => {
                cells.retain(|cell| cell.family == *family && range.contains(&cell.qualifier));
            }
            Self::Timestamps(range) => cells.retain(|cell| range.contains(cell.timestamp)),
            Self::Value(pattern) => cells.retain(|cell| pattern.matches(&cell.value)),
            Self::Values(range) => cells.retain(|cell| range.contains(&cell.value)),
            Self::PerColumn(versions) => return newest(cells, *versions),
            Self::PerRow(limit) => cells.truncate(*limit),
            Self::Offset(offset) => drop(cells.drain(..(*offset).min(cells.len()))),
            Self::Strip => cells.iter_mut().for_each(|cell| cell.value = Bytes::new()),
            Self::Chain(steps) => return steps.iter().fold(cells, |cells, step| step.apply(key, cells)),
            Self::Interleave(steps) => {
                let mut pooled: Vec<Cell> = steps.iter().flat_map(|step| step.apply(key, cells.clone())).collect();
                // Stable: copies of a cell stay in the order of their filters.
                pooled.sort_by(Cell::order);
                return pooled;
            }
            Self::Condition { predicate, then, otherwise } => {
                let holds = !predicate.apply(key, cells.clone()).is_empty();
                return if holds { then } else { otherwise }.apply(key, cells);
            }
        }
        cells
    }
}

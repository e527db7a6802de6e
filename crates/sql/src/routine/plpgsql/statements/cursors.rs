//! Statements on cursors: OPEN, FETCH, MOVE, and the cursor that they name.

use super::SEMICOLON;
use crate::error::{Result, SqlError, SqlState};
use crate::routine::plpgsql::compile::{Compiler, End};
use crate::routine::plpgsql::tree::{Direction, Kind, VariableKind};

impl Compiler<'_, '_> {
    /// The cursor variable that stands here.
    pub(super) fn cursor(&mut self) -> Result<usize> {
        let name = self.parser.label()?.text;
        match self.find(&[&name]) {
            Some((slot, _)) if matches!(self.variables[slot].kind, VariableKind::Cursor { .. }) => Ok(slot),
            Some(_) => {
                let message = format!("variable \"{name}\" must be of type cursor or refcursor");
                Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message))
            }
            None => {
                let message = format!("\"{name}\" is not a known variable");
                Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
            }
        }
    }

    pub(super) fn open(&mut self) -> Result<Kind> {
        self.parser.expect("open")?;
        let cursor = self.cursor()?;
        let arguments = self.cursor_arguments()?;
        self.parser.accept("no");
        self.parser.accept("scroll");
        let source = match self.parser.accept("for") {
            true => Some(self.source(SEMICOLON)?),
            false => None,
        };
        Ok(Kind::Open { cursor, source, arguments })
    }

    pub(super) fn fetch(&mut self, is_move: bool) -> Result<Kind> {
        self.parser.advance();
        let direction = self.direction()?;
        if !self.parser.accept("from") {
            self.parser.accept("in");
        }
        let cursor = self.cursor()?;
        let into = match is_move {
            true => None,
            false => {
                self.parser.expect("into")?;
                Some(self.row_target(false)?)
            }
        };
        Ok(Kind::Fetch { cursor, direction, into })
    }

    fn direction(&mut self) -> Result<Direction> {
        let ends = [End::Word("from"), End::Word("in")];
        let by = |count, is_backward| Direction::By { count, is_backward };
        Ok(match () {
            () if self.parser.accept("next") => by(None, false),
            () if self.parser.accept("prior") => by(None, true),
            () if self.parser.accept("first") => Direction::First,
            () if self.parser.accept("last") => Direction::Last,
            () if self.parser.accept("absolute") => Direction::Absolute(self.expression(&ends)?),
            () if self.parser.accept("relative") => Direction::Relative(self.expression(&ends)?),
            () if self.parser.accept("all") => Direction::All { is_backward: false },
            () if self.parser.is_one_of(&["forward", "backward"]) => {
                let is_backward = self.parser.accept("backward");
                self.parser.accept("forward");
                match () {
                    () if self.parser.accept("all") => Direction::All { is_backward },
                    () if self.parser.is_one_of(&["from", "in"]) => by(None, is_backward),
                    () => by(Some(self.expression(&ends)?), is_backward),
                }
            }
            () => by(None, false),
        })
    }
}

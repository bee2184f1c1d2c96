//! Both ends of a copy: at most one of them lies on another machine.

use crate::end::End;
use crate::error::Error;
use crate::here::Here;
use crate::local::ByThreads;
use crate::place::Place;
use crate::remote::{self, ByRsync, There};
use crate::request::Request;
use crate::road::Road;
use crate::tally::Tally;
use crate::task::Task;
use crate::walk::Listed;

/// The source and the destination. Each pair has a road between them.
pub(crate) enum Ends {
    Here(Here, Here),
    ToThere(Here, There),
    FromThere(There, Here),
}

impl Ends {
    /// Finds both ends of a request, and what is copied between them.
    ///
    /// # Errors
    /// There is no source; the destination lies in it, or cannot be made; the other machine cannot be reached.
    pub(crate) fn of(request: &Request, tally: &Tally) -> Result<(Self, Place), Error> {
        let found = remote::find(request, tally)?;
        let to_here = |place: &Place| match &request.within {
            Some(within) => Ok(Here::destination(within.full())),
            None => place.canonical_destination().map(Here::destination),
        };
        Ok(match found {
            None => {
                let place = Place::of(request)?;
                (Self::Here(Here::source(&place), to_here(&place)?), place)
            }
            Some((there, place)) if there.is_source() => (Self::FromThere(there, to_here(&place)?), place),
            Some((there, place)) => (Self::ToThere(Here::source(&place), there), place),
        })
    }

    pub(crate) fn from(&self) -> &dyn End {
        match self {
            Self::Here(from, _) | Self::ToThere(from, _) => from,
            Self::FromThere(from, _) => from,
        }
    }

    pub(crate) fn to(&self) -> &dyn End {
        match self {
            Self::Here(_, to) | Self::FromThere(_, to) => to,
            Self::ToThere(_, to) => to,
        }
    }

    /// Whether they lie on two machines.
    pub(crate) fn are_apart(&self) -> bool {
        !matches!(self, Self::Here(..))
    }

    /// The road from one to the other. An end on this machine is open from now on.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(crate) fn road<'a>(&'a self, task: &'a Task<'a>, listed: &'a Listed) -> Result<Box<dyn Road + 'a>, Error> {
        let road: Box<dyn Road + 'a> = match self {
            Self::Here(from, to) => Box::new(ByThreads::new(task, listed, from.tree(task)?, to.tree(task)?)),
            Self::ToThere(from, to) => Box::new(ByRsync::new(task, listed, to, from.tree(task)?)),
            Self::FromThere(from, to) => Box::new(ByRsync::new(task, listed, from, to.tree(task)?)),
        };
        Ok(road)
    }
}

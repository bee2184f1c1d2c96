//! Charts as drawings inside a page: they need no script, and take their colours and widths from the page.

mod bars;
mod curve;
mod forest;
mod overlay;
mod percentiles;
mod plot;
mod scale;
mod series;
mod track;

pub(super) use bars::{bars, sides, times};
pub(super) use curve::curves;
pub(super) use forest::Forest;
pub(super) use overlay::{overlays, swatch};
pub(super) use percentiles::percentiles;
pub(super) use series::series;

//! Objects kept in the order they were made, and the pages in which lists give them out: newest
//! first, by cursor.

use std::collections::{BTreeMap, VecDeque};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::{failure::Failure, form::Params};

/// How many objects a page has when the request does not say.
const PAGE_DEFAULT: usize = 10;
/// How many objects a page may have.
const PAGE_MAX: i64 = 100;

/// The parameters that every list takes.
pub(crate) const PAGE_PARAMS: [&str; 4] = ["created[]", "ending_before", "limit", "starting_after"];

/// An object with an id.
pub(crate) trait Object {
    /// What Stripe calls it in "No such …".
    const NOUN: &'static str;
    fn id(&self) -> &str;
    /// When it was made, in seconds since 1970.
    fn created(&self) -> i64;
    fn render(&self) -> Value;
}

/// All objects of one kind in one account.
#[derive(Clone, Debug)]
pub(crate) struct Shelf<T> {
    objects: VecDeque<T>,
    /// How many objects came before, the forgotten ones included.
    places: BTreeMap<String, usize>,
    forgotten: usize,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self { objects: VecDeque::new(), places: BTreeMap::new(), forgotten: 0 }
    }
}

impl<T: Object> Shelf<T> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.objects.iter()
    }

    pub(crate) fn find(&self, id: &str) -> Option<&T> {
        self.objects.get(self.place(id)?)
    }

    pub(crate) fn find_mut(&mut self, id: &str) -> Option<&mut T> {
        let place = self.place(id)?;
        self.objects.get_mut(place)
    }

    fn place(&self, id: &str) -> Option<usize> {
        self.places.get(id)?.checked_sub(self.forgotten)
    }

    /// The object, or Stripe's 404 that names `param`.
    pub(crate) fn need(&self, id: &str, param: &str) -> Result<&T, Failure> {
        self.find(id).ok_or_else(|| Failure::unknown(T::NOUN, id, param))
    }

    /// The object to change, or Stripe's 404 that names `param`.
    pub(crate) fn need_mut(&mut self, id: &str, param: &str) -> Result<&mut T, Failure> {
        self.find_mut(id).ok_or_else(|| Failure::unknown(T::NOUN, id, param))
    }

    pub(crate) fn add(&mut self, object: T) {
        let before = self.forgotten.saturating_add(self.objects.len());
        self.places.insert(object.id().to_owned(), before);
        self.objects.push_back(object);
    }

    /// Forgets the oldest objects: those made before `since_secs`, and those over `kept_max`.
    pub(crate) fn forget(&mut self, since_secs: i64, kept_max: usize) {
        let over = |shelf: &Self| {
            shelf.objects.len() > kept_max
                || shelf.objects.front().is_some_and(|oldest| oldest.created() < since_secs)
        };
        while over(self) {
            if let Some(oldest) = self.objects.pop_front() {
                self.places.remove(oldest.id());
                self.forgotten = self.forgotten.saturating_add(1);
            }
        }
    }

    /// The page that `params` ask for, of the objects that `keep` keeps.
    pub(crate) fn page(
        &self,
        url: &str,
        params: &Params,
        keep: impl Fn(&T) -> bool,
    ) -> Result<Value, Failure> {
        let limit = page_limit(params)?;
        let created = CreatedFilter::read(params)?;
        let after = self.cursor(params, "starting_after")?;
        let before = self.cursor(params, "ending_before")?;
        if after.is_some() && before.is_some() {
            let text = "You cannot use both 'starting_after' and 'ending_before'.";
            return Err(Failure::invalid(text).code("parameters_exclusive").param("ending_before"));
        }
        let mut rows =
            self.newest_first(after, before, |it| keep(it) && created.keeps(it.created()));
        let more = rows.len() > limit;
        if before.is_some() {
            rows.drain(..rows.len().saturating_sub(limit));
        } else {
            rows.truncate(limit);
        }
        let data = rows.iter().map(|object| object.render()).collect();
        Ok(listed(url, data, more))
    }

    /// The page of search results that `params` ask for, of the objects that `keep` keeps.
    pub(crate) fn search(
        &self,
        url: &str,
        params: &Params,
        keep: impl Fn(&T) -> bool,
    ) -> Result<Value, Failure> {
        let limit = page_limit(params)?;
        let after =
            match params.text("page")? {
                None => None,
                Some(page) => Some(self.place_of_page(page).ok_or_else(|| {
                    Failure::invalid(format!("Invalid page: {page}")).param("page")
                })?),
            };
        let mut rows = self.newest_first(after, None, keep);
        let more = rows.len() > limit;
        rows.truncate(limit);
        let last = rows.last().filter(|_| more);
        let next = last.map(|last| URL_SAFE_NO_PAD.encode(last.id()));
        let data: Vec<Value> = rows.iter().map(|object| object.render()).collect();
        Ok(json!({
            "object": "search_result", "data": data, "has_more": more, "next_page": next,
            "url": url,
        }))
    }

    /// The objects that `keep` keeps, older than `after` and newer than `before`.
    fn newest_first(
        &self,
        after: Option<(i64, usize)>,
        before: Option<(i64, usize)>,
        keep: impl Fn(&T) -> bool,
    ) -> Vec<&T> {
        let mut rows: Vec<((i64, usize), &T)> = self
            .objects
            .iter()
            .enumerate()
            .filter(|(_, object)| keep(object))
            .map(|(place, object)| ((object.created(), place), object))
            .filter(|(order, _)| after.is_none_or(|cursor| *order < cursor))
            .filter(|(order, _)| before.is_none_or(|cursor| *order > cursor))
            .collect();
        rows.sort_by_key(|(order, _)| std::cmp::Reverse(*order));
        rows.into_iter().map(|(_, object)| object).collect()
    }

    fn place_of_page(&self, page: &str) -> Option<(i64, usize)> {
        let id = String::from_utf8(URL_SAFE_NO_PAD.decode(page).ok()?).ok()?;
        self.order_of(&id)
    }

    /// Where an object stands in the order of lists.
    fn order_of(&self, id: &str) -> Option<(i64, usize)> {
        let place = self.place(id)?;
        Some((self.objects.get(place)?.created(), place))
    }

    /// Where the cursor `name` stands in the order of the list.
    fn cursor(&self, params: &Params, name: &str) -> Result<Option<(i64, usize)>, Failure> {
        let Some(id) = params.text(name)? else {
            return Ok(None);
        };
        self.order_of(id).map(Some).ok_or_else(|| Failure::unknown(T::NOUN, id, name))
    }
}

/// Stripe's list object.
pub(crate) fn listed(url: &str, data: Vec<Value>, more: bool) -> Value {
    json!({ "object": "list", "data": data, "has_more": more, "url": url })
}

fn page_limit(params: &Params) -> Result<usize, Failure> {
    match params.positive("limit")? {
        None => Ok(PAGE_DEFAULT),
        Some(limit) if limit > PAGE_MAX => {
            let text = format!("This value must be less than or equal to {PAGE_MAX}.");
            Err(Failure::invalid(text).code("parameter_invalid_integer").param("limit"))
        }
        Some(limit) => Ok(usize::try_from(limit).unwrap_or(PAGE_DEFAULT)),
    }
}

/// `created=…`, or any of `created[gt|gte|lt|lte]=…`.
#[derive(Default)]
struct CreatedFilter {
    at_least: Option<i64>,
    at_most: Option<i64>,
    above: Option<i64>,
    below: Option<i64>,
}

impl CreatedFilter {
    fn read(params: &Params) -> Result<Self, Failure> {
        let exact = params.integer("created")?;
        let mut filter = Self { at_least: exact, at_most: exact, ..Self::default() };
        for (operator, _) in params.map("created") {
            let name = format!("created[{operator}]");
            let bound = match operator {
                "gt" => &mut filter.above,
                "gte" => &mut filter.at_least,
                "lt" => &mut filter.below,
                "lte" => &mut filter.at_most,
                _ => {
                    let text = format!("Received unknown parameter: {name}");
                    return Err(Failure::invalid(text).code("parameter_unknown").param(&name));
                }
            };
            *bound = params.integer(&name)?;
        }
        Ok(filter)
    }

    fn keeps(&self, created: i64) -> bool {
        self.at_least.is_none_or(|bound| created >= bound)
            && self.at_most.is_none_or(|bound| created <= bound)
            && self.above.is_none_or(|bound| created > bound)
            && self.below.is_none_or(|bound| created < bound)
    }
}

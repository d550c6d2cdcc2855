//! What counts as spent, in which windows and at which rate.

use std::time::Duration;

use gate_core::{Intent, IntentId, State, Timestamp};
use gate_money::{Currency, Decimal, Rate, RateTable};
use gate_store::{Scope, SpendWindow, Spent};
use jiff::ToSpan as _;

use super::{Booked, DAY, Ledger};

impl Ledger {
    pub(super) fn release(&mut self, id: &IntentId, booked: &mut Booked) {
        let Some((usd, windows)) = self.reserved.remove(id) else {
            booked.breach("I4", format!("the spend of {id} was given back and was not there"));
            return;
        };
        for window in windows {
            *self.sums.entry(window).or_default() -= usd;
        }
    }

    pub(super) fn reserve(
        &mut self,
        now: Timestamp,
        id: &IntentId,
        usd: i64,
        windows: &[SpendWindow],
        booked: &mut Booked,
    ) {
        let twice = self.reserved.insert(id.clone(), (usd, windows.to_vec())).is_some();
        booked.law("I4", !twice, || format!("the spend of {id} was reserved twice"));
        let Some(entry) = self.intents.get(id) else {
            booked.breach("I4", format!("spend was reserved for {id}, which is not there"));
            return;
        };
        let worth = entry.intent.worth.as_ref().map_or(0, |worth| worth.usd.micros());
        booked.law("I4", worth == usd, || format!("{id} is worth {worth} and {usd} were reserved"));
        let bounds = self.bounds(now, &entry.intent);
        let late = entry.intent.state != State::Submitted;
        for (window, _) in bounds.iter().filter(|(window, _)| !windows.contains(window)) {
            booked.breach(
                "F9",
                format!("the spend of {id} was not reserved in {window:?} but in {windows:?}"),
            );
        }
        for window in windows {
            let sum = self.sums.entry(window.clone()).or_default();
            *sum += usd;
            let bound = bounds.iter().find(|(bound, _)| bound == window);
            let within = bound.is_some_and(|(_, cap)| *sum <= *cap);
            booked.law("I5", late || within, || {
                let (scope, period) = (window.scope.text(), &window.period);
                let cap = bound.map(|(_, cap)| cap);
                format!("{id} brings what {scope} spent in the {period} to {sum} of {cap:?}")
            });
        }
    }

    /// Every window that bounds an intent at `now`, and how much may be spent in it.
    pub(super) fn bounds(&self, now: Timestamp, intent: &Intent) -> Vec<(SpendWindow, i64)> {
        let agent = Scope::Agent(intent.agent.clone());
        let Some(limits) = self.limits(intent) else {
            return vec![(self.window(now, agent, "day"), 0)];
        };
        let team = limits.team.as_ref();
        let budgets = self.policy.as_ref().and_then(|(_, policy)| {
            policy.teams().find(|(name, _)| Some(*name) == team).map(|(_, budgets)| *budgets)
        });
        let budgets = budgets.unwrap_or_default();
        let team = team.map_or_else(|| agent.clone(), |team| Scope::Team(team.clone()));
        let all = [
            (&agent, "day", limits.daily_cap),
            (&agent, "week", limits.weekly_cap),
            (&agent, "month", limits.monthly_cap),
            (&team, "day", budgets.daily),
            (&team, "month", budgets.monthly),
        ];
        all.into_iter()
            .filter_map(|(scope, period, cap)| Some((scope, period, cap?.micros())))
            .map(|(scope, period, cap)| (self.window(now, scope.clone(), period), cap))
            .collect()
    }

    /// The day, week or month of `now` where the policy says: its first instant, and the next one's.
    pub(super) fn window(&self, now: Timestamp, scope: Scope, period: &str) -> SpendWindow {
        let zone = self.policy.as_ref().map_or("UTC", |(_, policy)| policy.timezone());
        let now = jiff::Timestamp::from_millisecond(now.millis()).expect("a time");
        let today = now.in_tz(zone).expect("a zone").date();
        let since_monday = i64::from(today.weekday().to_monday_zero_offset());
        let (first, next) = match period {
            "day" => (today, today.tomorrow().expect("a tomorrow")),
            "week" => {
                let monday = today.saturating_sub(since_monday.days());
                (monday, monday.saturating_add(7.days()))
            }
            _ => (today.first_of_month(), today.last_of_month().tomorrow().expect("a tomorrow")),
        };
        let starts = |day: jiff::civil::Date| {
            let start = day.in_tz(zone).and_then(|day| day.start_of_day()).expect("a day");
            Timestamp::from_millis(start.timestamp().as_millisecond())
        };
        let (starts_at, ends_at) = (starts(first), starts(next));
        SpendWindow { scope, period: period.to_owned(), starts_at, ends_at }
    }

    /// What counts is reserved, and nothing else is.
    pub(super) fn counted(&self, id: &IntentId, booked: &mut Booked) {
        let Some(entry) = self.intents.get(id) else { return };
        let state = entry.intent.state;
        let counts = matches!(state, State::Submitted | State::AwaitingStripe | State::Settled);
        booked.law("I4", counts == self.reserved.contains_key(id), || {
            let is = if counts { "not reserved" } else { "reserved" };
            format!("{id} is {} and its spend is {is}", state.as_str())
        });
    }

    /// What the authority saw as spent must be what was reserved.
    pub(crate) fn spent(&self, spent: &[Spent], booked: &mut Booked) {
        for seen in spent {
            let sum = self.sums.get(&seen.window).copied().unwrap_or_default();
            booked.law("I4", sum == seen.usd.micros(), || {
                format!("{} are counted in a window in which {sum} are reserved", seen.usd)
            });
        }
    }

    /// How old rates may be, and which win over them.
    pub(crate) fn counts_by(&mut self, rates_max_age: Duration, pins: Vec<Rate>) {
        self.rates_max_age = rates_max_age;
        self.pins = pins;
    }

    /// Rates are of no day to come, and follow from those before, unless these are of no use.
    pub(super) fn rates(&mut self, now: Timestamp, table: &RateTable, booked: &mut Booked) {
        let day = table.date();
        booked
            .law("F30", day_begins(table) <= now.after(DAY), || format!("rates of {day} are kept"));
        let old = self.rates.replace(table.clone());
        let Some(old) = old.filter(|old| now.since(day_begins(old)) <= self.rates_max_age) else {
            return;
        };
        booked.law("F30", old.date() <= day, || format!("rates of {day} follow later ones"));
        for (currency, figure) in table.rows() {
            let before = old.rows().find(|(known, _)| *known == currency);
            let mad = before.is_some_and(|(_, before)| {
                figure > before * Decimal::TWO || figure * Decimal::TWO < before
            });
            booked.law("F30", !mad, || format!("{currency} at {figure} is believed"));
        }
    }

    /// What an intent is worth by the rates of `now`, in micro-dollars; none without a rate.
    pub(super) fn worth(&self, now: Timestamp, intent: &Intent) -> Option<i64> {
        let currency = intent.amount.currency();
        let table = self.rates.as_ref();
        let table = table.filter(|table| now.since(day_begins(table)) <= self.rates_max_age);
        let rate = if currency == Currency::USD {
            Some(Rate::usd())
        } else {
            let pin = self.pins.iter().find(|pin| pin.currency() == currency).copied();
            pin.or_else(|| table.and_then(|table| table.rate(currency)))
        };
        rate?.to_micro_usd(intent.amount).ok().map(gate_money::MicroUsd::micros)
    }
}

/// The first instant, in UTC, of the day that rates are of.
fn day_begins(table: &RateTable) -> Timestamp {
    let day: jiff::civil::Date = table.date().parse().expect("a day");
    let start = day.in_tz("UTC").expect("a time").timestamp();
    Timestamp::from_millis(start.as_millisecond())
}

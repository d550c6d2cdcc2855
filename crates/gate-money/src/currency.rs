//! Which currencies there are, and how Stripe counts each one's smallest unit.
//!
//! The table follows Stripe, not ISO 4217: a króna and a Ugandan shilling have no hundredths, yet
//! Stripe counts them; Madagascar's ariary is counted whole. Whoever is not in the table is
//! refused, because a guess of two decimals moves a hundred times too much or too little.

use std::fmt;

use crate::error::{MoneyError, Shortened};

/// A currency that Stripe knows. There is one constant for each, such as [`Currency::EUR`].
///
/// Prints as its code in upper case; sorts by its code.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Currency(&'static Row);

/// Whether new charges can still be made in a currency.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Standing {
    /// In one of Stripe's lists of 2025 and 2026.
    Current,
    /// Only in older lists. Old charges in it may still ask for a refund.
    Withdrawn,
}

impl Currency {
    /// Reads a code of three letters, in upper or lower case, with nothing around it.
    ///
    /// # Errors
    ///
    /// [`MoneyError::UnknownCurrency`] for whatever is not in the table.
    pub fn parse(code: &str) -> Result<Self, MoneyError> {
        Self::all()
            .find(|currency| currency.code().eq_ignore_ascii_case(code))
            .ok_or_else(|| MoneyError::UnknownCurrency { code: Shortened::new(code) })
    }

    /// The code as people write it: `EUR`.
    #[must_use]
    pub const fn code(self) -> &'static str {
        self.0.code
    }

    /// The code as Stripe writes it: `eur`.
    #[must_use]
    pub const fn lower(self) -> &'static str {
        self.0.lower
    }

    /// How many decimals Stripe's minor unit stands for: 2 for EUR, 0 for JPY, 3 for KWD, and 2
    /// for ISK and UGX although those have none.
    #[must_use]
    pub const fn decimals(self) -> u8 {
        match self.0.counted {
            Counted::Zero => 0,
            Counted::Two | Counted::Whole => 2,
            Counted::Three => 3,
        }
    }

    /// How many decimals a text shows: none for ISK and UGX, else [`decimals`](Self::decimals).
    #[must_use]
    pub const fn shown_decimals(self) -> u8 {
        match self.0.counted {
            Counted::Zero | Counted::Whole => 0,
            Counted::Two => 2,
            Counted::Three => 3,
        }
    }

    /// What a minor amount must be a multiple of for Stripe to take it: 100 for ISK and UGX, 10
    /// for the currencies of three decimals, else 1.
    #[must_use]
    pub const fn granularity(self) -> i64 {
        match self.0.counted {
            Counted::Zero | Counted::Two => 1,
            Counted::Three => 10,
            Counted::Whole => 100,
        }
    }

    /// Whether new charges can still be made in it.
    #[must_use]
    pub const fn standing(self) -> Standing {
        self.0.standing
    }

    /// All of them, in the order of their codes.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.iter().copied()
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.code())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// A line of the table. The code comes first, so that the derived order is the codes' order.
#[derive(Eq, Hash, Ord, PartialEq, PartialOrd)]
struct Row {
    code: &'static str,
    lower: &'static str,
    counted: Counted,
    standing: Standing,
}

/// How Stripe counts a currency.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Counted {
    /// In whole units.
    Zero,
    /// In hundredths.
    Two,
    /// In thousandths, of which the last digit must be 0: the card networks carry two.
    Three,
    /// In hundredths, of which both digits must be 0: the currency has lost its decimals, Stripe
    /// kept counting them.
    Whole,
}

macro_rules! table {
    ($($code:ident $lower:literal $counted:ident $standing:ident;)*) => {
        impl Currency {
            $(
                #[doc = concat!("`", stringify!($code), "`")]
                pub const $code: Self = Self(&Row {
                    code: stringify!($code),
                    lower: $lower,
                    counted: Counted::$counted,
                    standing: Standing::$standing,
                });
            )*
        }

        const ALL: &[Currency] = &[$(Currency::$code),*];
    };
}

// From Stripe's documentation of supported currencies as of 2026-09-20, its list of 2025-26, its
// archived rule for three decimals, and for the withdrawn ones its older lists.
table! {
    AED "aed" Two Current;
    AFN "afn" Two Current;
    ALL "all" Two Current;
    AMD "amd" Two Current;
    ANG "ang" Two Current;
    AOA "aoa" Two Current;
    ARS "ars" Two Current;
    AUD "aud" Two Current;
    AWG "awg" Two Current;
    AZN "azn" Two Current;
    BAM "bam" Two Current;
    BBD "bbd" Two Current;
    BDT "bdt" Two Current;
    BGN "bgn" Two Current;
    BHD "bhd" Three Current;
    BIF "bif" Zero Current;
    BMD "bmd" Two Current;
    BND "bnd" Two Current;
    BOB "bob" Two Current;
    BRL "brl" Two Current;
    BSD "bsd" Two Current;
    BWP "bwp" Two Current;
    BYN "byn" Two Current;
    BZD "bzd" Two Current;
    CAD "cad" Two Current;
    CDF "cdf" Two Current;
    CHF "chf" Two Current;
    CLP "clp" Zero Current;
    CNY "cny" Two Current;
    COP "cop" Two Current;
    CRC "crc" Two Current;
    CVE "cve" Two Current;
    CZK "czk" Two Current;
    DJF "djf" Zero Current;
    DKK "dkk" Two Current;
    DOP "dop" Two Current;
    DZD "dzd" Two Current;
    EEK "eek" Two Withdrawn;
    EGP "egp" Two Current;
    ETB "etb" Two Current;
    EUR "eur" Two Current;
    FJD "fjd" Two Current;
    FKP "fkp" Two Current;
    GBP "gbp" Two Current;
    GEL "gel" Two Current;
    GIP "gip" Two Current;
    GMD "gmd" Two Current;
    GNF "gnf" Zero Current;
    GTQ "gtq" Two Current;
    GYD "gyd" Two Current;
    HKD "hkd" Two Current;
    HNL "hnl" Two Current;
    HRK "hrk" Two Withdrawn;
    HTG "htg" Two Current;
    HUF "huf" Two Current;
    IDR "idr" Two Current;
    ILS "ils" Two Current;
    INR "inr" Two Current;
    ISK "isk" Whole Current;
    JMD "jmd" Two Current;
    JOD "jod" Three Current;
    JPY "jpy" Zero Current;
    KES "kes" Two Current;
    KGS "kgs" Two Current;
    KHR "khr" Two Current;
    KMF "kmf" Zero Current;
    KRW "krw" Zero Current;
    KWD "kwd" Three Current;
    KYD "kyd" Two Current;
    KZT "kzt" Two Current;
    LAK "lak" Two Current;
    LBP "lbp" Two Current;
    LKR "lkr" Two Current;
    LRD "lrd" Two Current;
    LSL "lsl" Two Current;
    LTL "ltl" Two Withdrawn;
    LVL "lvl" Two Withdrawn;
    MAD "mad" Two Current;
    MDL "mdl" Two Current;
    MGA "mga" Zero Current;
    MKD "mkd" Two Current;
    MMK "mmk" Two Current;
    MNT "mnt" Two Current;
    MOP "mop" Two Current;
    MRO "mro" Two Withdrawn;
    MUR "mur" Two Current;
    MVR "mvr" Two Current;
    MWK "mwk" Two Current;
    MXN "mxn" Two Current;
    MYR "myr" Two Current;
    MZN "mzn" Two Current;
    NAD "nad" Two Current;
    NGN "ngn" Two Current;
    NIO "nio" Two Current;
    NOK "nok" Two Current;
    NPR "npr" Two Current;
    NZD "nzd" Two Current;
    OMR "omr" Three Current;
    PAB "pab" Two Current;
    PEN "pen" Two Current;
    PGK "pgk" Two Current;
    PHP "php" Two Current;
    PKR "pkr" Two Current;
    PLN "pln" Two Current;
    PYG "pyg" Zero Current;
    QAR "qar" Two Current;
    RON "ron" Two Current;
    RSD "rsd" Two Current;
    RUB "rub" Two Current;
    RWF "rwf" Zero Current;
    SAR "sar" Two Current;
    SBD "sbd" Two Current;
    SCR "scr" Two Current;
    SEK "sek" Two Current;
    SGD "sgd" Two Current;
    SHP "shp" Two Current;
    SLE "sle" Two Current;
    SLL "sll" Two Withdrawn;
    SOS "sos" Two Current;
    SRD "srd" Two Current;
    STD "std" Two Current;
    SVC "svc" Two Withdrawn;
    SZL "szl" Two Current;
    THB "thb" Two Current;
    TJS "tjs" Two Current;
    TND "tnd" Three Current;
    TOP "top" Two Current;
    TRY "try" Two Current;
    TTD "ttd" Two Current;
    TWD "twd" Two Current;
    TZS "tzs" Two Current;
    UAH "uah" Two Current;
    UGX "ugx" Whole Current;
    USD "usd" Two Current;
    UYU "uyu" Two Current;
    UZS "uzs" Two Current;
    VEF "vef" Two Withdrawn;
    VND "vnd" Zero Current;
    VUV "vuv" Zero Current;
    WST "wst" Two Current;
    XAF "xaf" Zero Current;
    XCD "xcd" Two Current;
    XCG "xcg" Two Current;
    XOF "xof" Zero Current;
    XPF "xpf" Zero Current;
    YER "yer" Two Current;
    ZAR "zar" Two Current;
    ZMW "zmw" Two Current;
}

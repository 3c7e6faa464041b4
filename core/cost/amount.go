package cost

import (
	"slices"
	"strings"
)

// Amount is an amount in a currency.
type Amount struct {
	Currency string `json:"currency"`
	Micros   int64  `json:"micros"`
}

// AddAmounts adds amounts to a list that has each currency once, in the order of their names. The list itself is not changed.
func AddAmounts(list []Amount, more ...Amount) []Amount {
	list = slices.Clone(list)
	for _, a := range more {
		at, has := slices.BinarySearchFunc(list, a.Currency, func(b Amount, currency string) int { return strings.Compare(b.Currency, currency) })
		if has {
			list[at].Micros += a.Micros
		} else {
			list = slices.Insert(list, at, a)
		}
	}
	return list
}

package cost

import (
	"fmt"
	"math/big"
)

// OnPremises is what a node costs that was bought. All are millionths: of the currency, of years, of watts, and of 1.
type OnPremises struct {
	Capital     int64 // what the node cost
	Years       int64 // for which it is used; more than 0
	Watts       int64 // what it draws on average
	PUE         int64 // power of the building for a watt of the node; 0 counts as 1
	PricePerKWh int64
}

// hoursOfYear are those of 365 days.
const hoursOfYear = 8760

// million is what one is in millionths.
const million = 1_000_000

// Micros returns the price of an hour, in millionths, rounded down, and at most MostMicros:
//
//	Capital / (Years * 8760) + Watts / 1000 * PUE * PricePerKWh
func (o OnPremises) Micros() int64 {
	if o.Years <= 0 {
		return 0
	}
	pue := o.PUE
	if pue == 0 {
		pue = million
	}
	// Capital and Years are both in millionths, so one million remains; of three factors in millionths, two are taken out.
	bought := new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(o.Capital), big.NewInt(million)), new(big.Int).Mul(big.NewInt(o.Years), big.NewInt(hoursOfYear)))
	power := new(big.Rat).SetFrac(
		new(big.Int).Mul(new(big.Int).Mul(big.NewInt(o.Watts), big.NewInt(pue)), big.NewInt(o.PricePerKWh)),
		new(big.Int).Mul(big.NewInt(1000*million), big.NewInt(million)))
	sum := bought.Add(bought, power)
	micros := new(big.Int).Quo(sum.Num(), sum.Denom())
	if most := big.NewInt(MostMicros); micros.Cmp(most) > 0 {
		micros = most
	}
	return micros.Int64()
}

// String is how the price is computed, for people.
func (o OnPremises) String() string {
	n := func(micros int64) string { return decimal(micros) }
	text := fmt.Sprintf("%s over %s years", n(o.Capital), n(o.Years))
	if o.Watts > 0 && o.PricePerKWh > 0 {
		text += fmt.Sprintf(", %s W at %s a kWh", n(o.Watts), n(o.PricePerKWh))
		if o.PUE > 0 && o.PUE != million {
			text += " with PUE " + n(o.PUE)
		}
	}
	return text
}

// decimal is a number in millionths, without zeros at its end.
func decimal(micros int64) string {
	r := new(big.Rat).SetFrac64(micros, million)
	text := r.FloatString(6)
	for text[len(text)-1] == '0' {
		text = text[:len(text)-1]
	}
	if text[len(text)-1] == '.' {
		text = text[:len(text)-1]
	}
	return text
}

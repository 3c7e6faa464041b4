package cost

import "time"

// Checked is what a check of the closed days of a ledger has found. Its JSON is what Berth serves and prints.
type Checked struct {
	Days     int       `json:"days"`     // that are closed
	Links    int       `json:"links"`    // of the chain: one for each time that a day was closed
	Head     string    `json:"head"`     // hash of the last link; "" is that there is none
	HeadDay  time.Time `json:"headDay"`  // the day that the last link closed
	Problems []Problem `json:"problems"` // in the order of days
	Reclosed []Problem `json:"reclosed"` // days that were closed again, and why: that is not a problem
	Restored int       `json:"restored"` // days that were restored from copies
	Losses   []Loss    `json:"losses"`   // what the ledger has lost, as its file was damaged or gone
}

// Problem is what there is to say of a day.
type Problem struct {
	Day  time.Time `json:"day"`
	What string    `json:"what"`
}

// Rerated is what a change of prices of the past has done. Its JSON is what Berth serves and prints.
type Rerated struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Nodes  int       `json:"nodes"`  // whose prices have changed
	Gone   int       `json:"gone"`   // nodes that kept their prices, as they are gone and their labels are not known
	Before []Amount  `json:"before"` // what the time cost, by currency
	After  []Amount  `json:"after"`
}

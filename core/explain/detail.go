package explain

// Detail is the binding cause of a Verdict more exactly than its check tells.
type Detail struct {
	Code Code
	Text string // the sentence in place of the one of the check; "" is that one
}

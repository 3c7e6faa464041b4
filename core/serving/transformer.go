package serving

// Transformer is what stands before the model of a service: it gets each request, calls the model, and may change request and answer.
type Transformer struct {
	Min, Max int  // replicas; Max is at least 1 and Min
	GPUs     bool // its replicas hold GPUs
}

// Replicas returns how many replicas a transformer has beside so many of the model: as many, between Min and Max, and none beside none, as
// there is nothing to call then.
func (t *Transformer) Replicas(model int) int {
	if model <= 0 {
		return 0
	}
	return min(max(model, t.Min), max(t.Max, t.Min, 1))
}

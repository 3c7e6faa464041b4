package nvml

// Losses returns the losses of GPUs that nobody was told of yet.
func (d *Driver) Losses() (out []Event) {
	d.tell(func(e Event) { out = append(out, e) })
	return out
}

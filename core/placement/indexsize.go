package placement

// Size says how many shapes x keeps scores for, and how many bytes those take;
// what the shapes keep beside their scores is not counted.
func (x *Index) Size() (shapes int, bytes int64) {
	for _, h := range x.shapes {
		bytes += 8 * int64(len(h.keys)+len(h.best))
	}
	return len(x.shapes), bytes
}

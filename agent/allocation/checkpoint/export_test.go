package checkpoint

// Parse returns how many entries a checkpoint has.
func Parse(raw []byte) (int, error) {
	entries, err := parse(raw)
	if err == nil {
		err = ReadNonces(entries)
	}
	return len(entries), err
}

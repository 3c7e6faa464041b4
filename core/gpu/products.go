package gpu

// Product is what is known of one GPU model.
type Product struct {
	Name                                              string
	MemoryMiB                                         int64
	Family                                            string
	ComputeMajor, ComputeMinor                        int
	Multiprocessors                                   int
	PowerLimitWatts, MaxSMClockMHz, MaxMemoryClockMHz int
	NVLinks                                           int
	ComputeSlices, MemorySlices                       int
	Profiles                                          []Profile
	MPSClients                                        int
}

// Profile is one MIG profile of a product.
type Profile struct {
	Name                                   string
	ID, Slices, Size, Max                  int
	Placements                             []int
	MemoryMiB                              int64
	Multiprocessors, CopyEngines, Decoders int
	Encoders, JPEG, OFA                    int
}

// XidInfo says what one Xid means.
type XidInfo struct {
	Code                  int
	Name, Meaning, Action string
	Healthy               bool
}

func Find(name string) (Product, bool)                         { return Product{}, false }
func Products() []Product                                      { return nil }
func Nearest(name string) string                               { return "" }
func NearestWord(word string, from []string) string            { return "" }
func (p Product) LabelName() string                            { return "" }
func (p Product) Profile(name string) (Profile, bool)          { return Profile{}, false }
func Layout(p Product, profiles []string) ([]MIGDevice, error) { return nil, nil }
func UUID(kind, seed string) string                            { return "" }
func New(node string, p Product, count int) []GPU              { return nil }
func Cut(g *GPU, p Product, profiles []string) error           { return nil }
func Labels(n Node, s Sharing) map[string]string               { return nil }
func Xid(code int) XidInfo                                     { return XidInfo{} }

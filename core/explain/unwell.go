package explain

// What keeps a node from taking pods for a while: the subjects of gaps of CheckClosed,
// beside those of package devices.
const (
	UnderMemoryPressure = "under memory pressure"
	UnderDiskPressure   = "under disk pressure"
	UnderPIDPressure    = "short of process IDs"
	WithoutNetwork      = "without a network"
	Uninitialized       = "not initialized by its cloud provider"
	BeingRemoved        = "being removed by its autoscaler"
)

// codeOfClosed names why a node takes no pods now.
func codeOfClosed(subject string) Code {
	switch subject {
	case "cordoned":
		return CodeCordoned
	case "device plugin down":
		return CodeNotOffered
	case UnderMemoryPressure, UnderDiskPressure, UnderPIDPressure:
		return CodePressure
	case WithoutNetwork:
		return CodeNodeNetwork
	case Uninitialized:
		return CodeUninitialized
	case BeingRemoved:
		return CodeNodeLeaves
	}
	return CodeNotReady
}

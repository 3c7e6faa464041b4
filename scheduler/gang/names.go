package gang

// The names of the plugins that keep gangs whole, in the scheduler's
// configuration. They are two because the scheduler asks a plugin about events
// for every pod that it holds back: GangsName holds back, and asks for none.
const (
	GangsName = "BerthGangs"
	PlansName = "BerthGangPlans"
)

// Rewrites a graph without some of its channels.
#pragma once

#include <vector>

#include "passes/channel_flow.h"

namespace kiln {

// `flows` are the nodes', `is_removed` goes by channel number. Channels that links tie together must go together, none
// may go that an opaque node or a `fixed` names, whole groups of products only, and a channel must stay in each value.
// `numbers` holds, by channel number, what a removed channel is at every element: products that read it take that into
// their biases.
Status narrow_channels(Graph& graph, const OpRegistry& ops, const ChannelNumbers& channels,
                       const std::vector<ChannelFlow>& flows, const std::vector<bool>& is_removed,
                       const std::vector<double>& numbers);

}  // namespace kiln

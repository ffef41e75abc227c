package org.apache.samza.operators.impl;

import java.util.Collection;
import org.apache.samza.context.Context;
import org.apache.samza.operators.spec.WindowOperatorSpec;
import org.apache.samza.operators.windows.WindowPane;
import org.apache.samza.util.Clock;

/** A window operator without the task around it: only its own package may call it. */
public final class Operated<M, K, V> {
    private final WindowOperatorImpl<M, K> operator;

    @SuppressWarnings("unchecked")
    public Operated(WindowOperatorSpec<M, K, V> specification, Clock clock, Context context) {
        operator = new WindowOperatorImpl<>((WindowOperatorSpec<M, K, Object>) specification, clock);
        operator.handleInit(context);
    }

    public Collection<WindowPane<K, Object>> message(M message) {
        return operator.handleMessageAsync(message, null, null).toCompletableFuture().join();
    }

    public Collection<WindowPane<K, Object>> timer() {
        return operator.handleTimer(null, null);
    }

    public Collection<WindowPane<K, Object>> end() {
        return operator.handleEndOfStream(null, null);
    }
}

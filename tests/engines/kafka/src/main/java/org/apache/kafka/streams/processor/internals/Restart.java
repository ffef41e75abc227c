package org.apache.kafka.streams.processor.internals;

import java.util.List;
import java.util.OptionalLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;

/** What a task goes through at a restart, but not in TopologyTestDriver; visible to this package only. */
public final class Restart {
    private Restart() {}

    /** Gives a store its changelog, as a restore does. */
    public static void restore(StreamTask task, String topic, List<ConsumerRecord<byte[], byte[]>> records) {
        ProcessorStateManager states = task.stateManager();
        states.restore(states.storeMetadata(new TopicPartition(topic, 0)), records, OptionalLong.empty());
    }

    /** Operators begin with what was committed with the offsets: the time up to which windows were emitted. */
    public static void begin(StreamTask task, ProcessorMetadata committed) {
        task.processorContext().setProcessorMetadata(committed);
        for (ProcessorNode<?, ?, ?, ?> node : task.topology.processors()) {
            begin(node, task.processorContext());
        }
    }

    @SuppressWarnings("unchecked")
    private static <K, V> void begin(ProcessorNode<?, ?, K, V> node, InternalProcessorContext<?, ?> context) {
        context.setCurrentNode(node);
        node.close();
        node.init((InternalProcessorContext<K, V>) context);
        context.setCurrentNode(null);
    }
}
